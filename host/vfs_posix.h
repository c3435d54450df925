/* base/vfs.h over the kernel's files. */
#ifndef STELE_HOST_VFS_POSIX_H
#define STELE_HOST_VFS_POSIX_H

#include "base/mem.h"
#include "base/vfs.h"

/** A vfs whose files take their memory from `mem`. NULL when out of memory. Thread safe. */
struct stele_vfs *stele_vfs_posix_new(struct stele_mem *mem);
void stele_vfs_posix_free(struct stele_vfs *vfs);

#endif
