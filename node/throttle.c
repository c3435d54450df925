#include "node/throttle.h"

#include "node/node_struct.h"
#include "node/settings.h"

#include <string.h>

static const char *const rate_names[STELE_THROTTLE_SIDES] = {"leader.replication.throttled.rate",
                                                             "follower.replication.throttled.rate"};
static const char *const list_names[STELE_THROTTLE_SIDES] = {"leader.replication.throttled.replicas",
                                                             "follower.replication.throttled.replicas"};

const char *stele_throttle_list_name(enum stele_throttle_side side)
{
    return list_names[side];
}

/* Rates. */

void stele_throttle_begin(struct stele_node *node)
{
    const struct stele_settings *settings = node->settings;
    node->throttle.window_count = (int)stele_settings_int(settings, "replication.quota.window.num");
    node->throttle.window_ms = stele_settings_int(settings, "replication.quota.window.size.seconds") * 1000;
    stele_throttle_take_rates(node);
}

void stele_throttle_take_rates(struct stele_node *node)
{
    for (int side = 0; side < STELE_THROTTLE_SIDES; side++)
        node->throttle.bytes_per_second[side] = stele_settings_int(node->settings, rate_names[side]);
}

void stele_throttle_count(struct stele_shard *shard, enum stele_throttle_side side, int64_t bytes)
{
    const struct stele_throttle *throttle = &shard->node->throttle;
    int64_t window = stele_env_mono_ms(shard->env) / throttle->window_ms;
    size_t at = (size_t)(window % throttle->window_count);
    struct stele_throttle_windows *windows = &shard->throttled.sides[side];
    int64_t before = windows->slots[at].window == window ? windows->slots[at].bytes : 0;
    /* Who reads between the two takes the new bytes for those of a window long ago: too few, for a moment. */
    windows->slots[at].bytes = before + bytes;
    windows->slots[at].window = window;
}

static void add_up(const struct stele_throttle_windows *windows, const struct stele_throttle *throttle, int64_t now,
                   int64_t *inout_bytes, int64_t *inout_first)
{
    for (int i = 0; i < throttle->window_count; i++) {
        int64_t window = windows->slots[i].window, bytes = windows->slots[i].bytes;
        if (bytes == 0 || window > now || window <= now - throttle->window_count)
            continue;
        *inout_bytes += bytes;
        *inout_first = stele_min_i64(*inout_first, window);
    }
}

int64_t stele_throttle_delay(const struct stele_shard *shard, enum stele_throttle_side side)
{
    const struct stele_node *node = shard->node;
    const struct stele_throttle *throttle = &node->throttle;
    int64_t rate = throttle->bytes_per_second[side];
    if (rate == INT64_MAX)
        return 0;
    int64_t now_ms = stele_env_mono_ms(shard->env), now = now_ms / throttle->window_ms, bytes = 0, first = now;
    for (int i = STELE_SHARD_DATA; i < node->shard_count; i++)
        add_up(&node->shards[i].throttled.sides[side], throttle, now, &bytes, &first);
    int64_t passed_ms = stele_max_i64(now_ms - first * throttle->window_ms, throttle->window_ms);
    if (bytes * 1000 / passed_ms <= rate && (bytes > 0 || rate > 0))
        return 0;
    if (rate == 0)
        return throttle->window_ms;
    return stele_max_i64(stele_min_i64(bytes * 1000 / rate + 1 - passed_ms, throttle->window_ms), 1);
}

/* Waiting. */

static void fired(struct stele_timer *timer)
{
    struct stele_throttled *throttled = STELE_CONTAINER_OF(timer, struct stele_throttled, timer);
    struct stele_list woken;
    stele_list_init(&woken);
    while (!stele_list_is_empty(&throttled->waiters)) { /* those that wait again are not met again */
        struct stele_list *first = throttled->waiters.next;
        stele_list_remove(first);
        stele_list_push(&woken, first);
    }
    while (!stele_list_is_empty(&woken)) {
        struct stele_throttle_wait *wait = STELE_CONTAINER_OF(woken.next, struct stele_throttle_wait, link);
        stele_list_remove(&wait->link);
        wait->again(wait);
    }
}

void stele_throttle_init(struct stele_shard *shard)
{
    stele_list_init(&shard->throttled.waiters);
    stele_timer_init(&shard->throttled.timer, fired);
}

/* The first one's delay is good for all: they wait for the same rate, and who comes too early waits again. */
void stele_throttle_wait(struct stele_shard *shard, struct stele_throttle_wait *wait, int64_t delay_ms)
{
    struct stele_throttled *throttled = &shard->throttled;
    if (stele_list_is_empty(&throttled->waiters))
        stele_shard_arm(shard, &throttled->timer, stele_env_mono_ms(shard->env) + delay_ms);
    if (stele_list_is_empty(&wait->link))
        stele_list_push(&throttled->waiters, &wait->link);
}

/* Lists. */

/* Digits of a number that an int32 holds; -1: there is none. */
static int64_t take_number(const char **inout_at)
{
    int64_t number = 0;
    int digits = 0;
    for (; **inout_at >= '0' && **inout_at <= '9'; (*inout_at)++, digits++) {
        if (number <= INT32_MAX)
            number = number * 10 + (**inout_at - '0');
    }
    return digits > 0 && number <= INT32_MAX ? number : -1;
}

static const char *skip_spaces(const char *at)
{
    return at + strspn(at, " ");
}

/* The next "PARTITION:NODE" and its comma. False: it is none. */
static bool take_pair(const char **inout_at, int64_t *out_partition, int64_t *out_node_id)
{
    const char *at = skip_spaces(*inout_at);
    *out_partition = take_number(&at);
    if (*out_partition < 0 || *at++ != ':')
        return false;
    *out_node_id = take_number(&at);
    at = skip_spaces(at);
    if (*out_node_id < 0 || (*at != 0 && *at != ','))
        return false;
    *inout_at = *at == ',' ? at + 1 : at;
    return true;
}

static bool is_all(const char *list)
{
    const char *at = skip_spaces(list);
    return *at == '*' && *skip_spaces(at + 1) == 0;
}

bool stele_throttle_list_has(const char *list, int32_t partition, int32_t node_id)
{
    if (is_all(list))
        return true;
    while (*list != 0) {
        int64_t number, id;
        if (!take_pair(&list, &number, &id))
            return false;
        if (number == partition && id == node_id)
            return true;
    }
    return false;
}

enum stele_err stele_throttle_check_list(const char *name, const char *list, struct stele_error *error)
{
    bool is_good = is_all(list);
    while (!is_good) {
        int64_t number, id;
        if (*skip_spaces(list) == 0)
            is_good = true;
        else if (!take_pair(&list, &number, &id))
            return stele_error_set(error, STELE_INVALID_CONFIG,
                                   "%s: '%.60s' is not PARTITION:NODE by comma, as 0:1,0:2,1:2 is, nor *", name, list);
    }
    return STELE_OK;
}

enum stele_err stele_throttle_check(const struct stele_settings *settings, struct stele_error *error)
{
    enum stele_err err = STELE_OK;
    for (int side = 0; side < STELE_THROTTLE_SIDES && err == STELE_OK; side++)
        err = stele_throttle_check_list(list_names[side], stele_settings_text(settings, list_names[side]), error);
    return err;
}

bool stele_throttle_names(const struct stele_node *node, const struct stele_image_topic *topic,
                          enum stele_throttle_side side, int32_t partition)
{
    const struct stele_image_change *own = stele_image_setting(&topic->settings, list_names[side]);
    const char *list = own != NULL ? own->value : stele_settings_text(node->settings, list_names[side]);
    return stele_throttle_list_has(list, partition, node->node_id);
}
