/* What packing and unpacking share: memory for the codecs' libraries, and the constants of two formats. */
#ifndef STELE_PROTO_CODEC_MEM_H
#define STELE_PROTO_CODEC_MEM_H

#include "base/mem.h"

/* zlib's largest window, with gzip's header and trailer around it. */
enum { STELE_GZIP_WINDOW_BITS = 15 + 16, STELE_SNAPPY_MAGIC_BYTES = 8 };

/* Magic, version 1, oldest compatible version 1. */
static const uint8_t stele_snappy_header[16] = {0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0, 0, 0, 0, 1, 0, 0, 0, 1};

/* The libraries' hooks; `mem` is a struct stele_mem. */
static inline void *stele_codec_alloc(void *mem, size_t bytes)
{
    return stele_mem_raw(mem, STELE_MEM_CODEC, bytes);
}

static inline void *stele_codec_zlib_alloc(void *mem, unsigned count, unsigned bytes)
{
    return stele_mem_array(mem, STELE_MEM_CODEC, count, bytes);
}

static inline void stele_codec_free(void *mem, void *ptr)
{
    stele_mem_free(mem, ptr);
}

#endif
