#include "base/sort.h"
#include "base/test/support.h"

#include <string.h>

struct wide {
    int key;
    char rest[100]; /* wider than one step of a swap */
};

static int compare(const void *a, const void *b)
{
    const struct wide *left = a, *right = b;
    return left->key < right->key ? -1 : left->key > right->key;
}

/* Any numbers of items come out in order, none lost, none torn, for few and for many equal keys. */
static void test_sorts(void **state)
{
    static struct wide items[500];
    static int seen[1000];
    struct stele_prng prng;
    (void)state;
    stele_prng_init(&prng, 7, 0);
    for (int round = 0; round < 400; round++) {
        int count = (int)stele_prng_below(&prng, round < 100 ? 6 : 500), keys = round % 2 == 0 ? 3 : 1000;
        memset(seen, 0, sizeof(seen));
        for (int i = 0; i < count; i++) {
            items[i].key = (int)stele_prng_below(&prng, (uint64_t)keys);
            memset(items[i].rest, items[i].key % 251, sizeof(items[i].rest));
            seen[items[i].key]++;
        }
        stele_sort(items, (size_t)count, sizeof(*items), compare);
        for (int i = 0; i < count; i++) {
            assert_true(i == 0 || items[i - 1].key <= items[i].key);
            for (size_t at = 0; at < sizeof(items[i].rest); at++)
                assert_int_equal((uint8_t)items[i].rest[at], items[i].key % 251);
            seen[items[i].key]--;
        }
        for (size_t key = 0; key < STELE_ARRAY_LEN(seen); key++)
            assert_int_equal(seen[key], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_sorts)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
