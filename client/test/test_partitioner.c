#include "base/test/support.h"
#include "client/client_internal.h"

#include <string.h>

struct murmur_case {
    const char *key;
    int32_t hash;
};

/* The vectors of Kafka's own UtilsTest. */
static const struct murmur_case vectors[] = {
    {"21", -973932308},
    {"foobar", -790332482},
    {"a-little-bit-long-string", -985981536},
    {"a-little-bit-longer-string", -1486304829},
    {"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971},
    {"abc", 479470107},
};

/* Keys hash as Kafka's clients hash them, so both find a key in the same partition. */
static void test_murmur2(void **state)
{
    (void)state;
    for (size_t i = 0; i < STELE_ARRAY_LEN(vectors); i++) {
        uint32_t hash = stele_murmur2(vectors[i].key, strlen(vectors[i].key));
        assert_int_equal((int32_t)hash, vectors[i].hash);
        assert_int_equal(stele_partition_of_key(vectors[i].key, strlen(vectors[i].key), 1000),
                         (int32_t)((uint32_t)vectors[i].hash & 0x7fffffffu) % 1000);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_murmur2)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
