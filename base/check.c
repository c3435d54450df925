#include "base/check.h"

#include <stdio.h>
#include <stdlib.h>

__attribute__((weak)) void stele_assert_fail(const char *condition, const char *file, int line)
{
    fprintf(stderr, "stele: broken invariant: %s (%s:%d)\n", condition, file, line);
    abort();
}
