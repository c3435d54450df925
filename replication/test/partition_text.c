#include "replication/test/partition_text.h"

#include <stdio.h>
#include <string.h>

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

struct stele_node_set set_of_text(const char *digits)
{
    struct stele_node_set set = {.count = 0};
    for (; is_digit(*digits); digits++) {
        assert_true(stele_node_set_add(&set, *digits - '0'));
    }
    return set;
}

struct stele_partition_state state_of_text(const char *text)
{
    struct stele_partition_state state = {.leader_id = STELE_NO_NODE, .leader_epoch = 5, .partition_epoch = 9};
    for (; *text != 0; text++) {
        switch (*text) {
        case 'r':
            state.replicas = set_of_text(text + 1);
            break;
        case 'i':
            state.isr = set_of_text(text + 1);
            break;
        case 'e':
            state.elr = set_of_text(text + 1);
            break;
        case 'k':
            state.last_known_elr = set_of_text(text + 1);
            break;
        case 'a':
            state.adding = set_of_text(text + 1);
            break;
        case 'd':
            state.removing = set_of_text(text + 1);
            break;
        case 'x':
            state.offline = set_of_text(text + 1);
            break;
        case 'L':
            state.leader_id = is_digit(text[1]) ? text[1] - '0' : STELE_NO_NODE;
            break;
        case '!':
            state.is_recovering = true;
            break;
        default:
            assert_true(is_digit(*text) || *text == ' ' || *text == '-');
        }
    }
    assert_true(stele_partition_state_is_sound(&state));
    return state;
}

struct stele_partition_change change_of_text(const char *text)
{
    struct stele_partition_change change = {.unclean_leader_id = STELE_NO_NODE};
    for (; *text != 0; text++) {
        switch (*text) {
        case 'i':
            change.has_isr = true;
            change.isr = set_of_text(text + 1);
            break;
        case 'R':
            change.has_recovered = true;
            break;
        case 'p':
            change.mode = STELE_ELECT_PREFERRED;
            break;
        case 'u':
            change.mode = STELE_ELECT_UNCLEAN;
            change.unclean_leader_id = is_digit(text[1]) ? text[1] - '0' : STELE_NO_NODE;
            break;
        case 'l':
            change.lost_tail = set_of_text(text + 1);
            break;
        case 'x':
            change.offline = set_of_text(text + 1);
            break;
        case 't':
            change.reassign = STELE_REASSIGN_START;
            change.target = set_of_text(text + 1);
            break;
        case 'c':
            change.reassign = STELE_REASSIGN_CANCEL;
            break;
        case 'f':
            change.may_lose_isr = true;
            break;
        default:
            assert_true(is_digit(*text) || *text == ' ');
        }
    }
    return change;
}

struct stele_partition_view view_of_text(const char *active, int32_t min_isr)
{
    const char *offline = strchr(active, 'o');
    const struct stele_node_set active_set = set_of_text(active);
    const struct stele_node_set offline_set = set_of_text(offline != NULL ? offline + 1 : "");
    struct stele_partition_view view = {.min_isr = min_isr};
    for (int32_t id = 0; id < 10; id++) {
        view.nodes[view.count++] = (struct stele_replica_view){.node_id = id,
                                                               .node_epoch = 100 + id,
                                                               .is_active = stele_node_set_has(&active_set, id),
                                                               .is_offline = stele_node_set_has(&offline_set, id)};
    }
    return view;
}

static size_t set_text(char name, const struct stele_node_set *set, bool is_sorted, char *out_text)
{
    size_t at = 0;
    out_text[at++] = name;
    for (int32_t id = 0; is_sorted && id < 10; id++) {
        if (stele_node_set_has(set, id)) {
            out_text[at++] = (char)('0' + id);
        }
    }
    for (int32_t i = 0; !is_sorted && i < set->count; i++) {
        out_text[at++] = (char)('0' + set->ids[i]);
    }
    out_text[at++] = ' ';
    return at;
}

void state_text(const struct stele_partition_state *state, char out_text[PARTITION_TEXT_BYTES])
{
    const struct {
        char name;
        const struct stele_node_set *set;
    } sets[] = {{'i', &state->isr},    {'e', &state->elr},      {'k', &state->last_known_elr},
                {'a', &state->adding}, {'d', &state->removing}, {'x', &state->offline}};
    size_t at = set_text('r', &state->replicas, false, out_text);
    for (size_t i = 0; i < STELE_ARRAY_LEN(sets); i++) {
        if (i == 0 || sets[i].set->count > 0) {
            at += set_text(sets[i].name, sets[i].set, true, out_text + at);
        }
    }
    out_text[at++] = 'L';
    out_text[at++] = state->leader_id == STELE_NO_NODE ? '-' : (char)('0' + state->leader_id);
    memcpy(out_text + at, state->is_recovering ? " !" : "", state->is_recovering ? 3 : 1);
}
