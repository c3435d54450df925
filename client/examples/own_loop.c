/* The client on a loop that is not its own: lines of standard input become records as they come, while the loop waits
 * for the input and for the client at the same time. The same works with any loop that waits for descriptors.
 *
 *   cc own_loop.c $(pkg-config --cflags --libs stele) -o own_loop
 *   ./own_loop 127.0.0.1:7835 numbers */
#include <stele.h>

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct state {
    struct stele_producer *producer;
    char line[4096];
    size_t bytes;
    int failed;
};

static void delivered(void *arg, const struct stele_delivery *delivery)
{
    struct state *state = arg;
    if (delivery->result.code == 0) {
        printf("partition %d offset %lld\n", delivery->partition, (long long)delivery->offset);
        return;
    }
    state->failed = 1;
    fprintf(stderr, "%s\n", delivery->result.text);
}

/* Sends the whole lines that were read; a full buffer shows as a refusal that is retriable. */
static void send_lines(struct state *state)
{
    for (;;) {
        char *end = memchr(state->line, '\n', state->bytes);
        if (end == NULL)
            return;
        size_t bytes = (size_t)(end - state->line);
        struct stele_message message = {.partition = -1, .timestamp = -1, .value = state->line, .value_bytes = bytes};
        struct stele_result result = stele_producer_send(state->producer, &message, 0);
        if (result.code != 0 && result.is_retriable)
            return; /* tried again when the client had time */
        if (result.code != 0) {
            fprintf(stderr, "%s\n", result.text);
            state->failed = 1;
        }
        state->bytes -= bytes + 1;
        memmove(state->line, end + 1, state->bytes);
    }
}

static int run(struct stele_client *client, struct state *state)
{
    int has_input = 1;
    while (!state->failed && (has_input || stele_producer_pending(state->producer) > 0)) {
        struct pollfd fds[2] = {{.fd = stele_client_fd(client), .events = POLLIN},
                                {.fd = STDIN_FILENO, .events = POLLIN}};
        if (!has_input || state->bytes == sizeof(state->line))
            fds[1].fd = -1;
        if (poll(fds, 2, stele_client_wait_ms(client)) < 0)
            return 1;
        if (fds[1].fd >= 0 && fds[1].revents != 0) {
            ssize_t count = read(STDIN_FILENO, state->line + state->bytes, sizeof(state->line) - state->bytes);
            has_input = count > 0;
            state->bytes += count > 0 ? (size_t)count : 0;
        }
        send_lines(state);
        stele_client_poll(client, 0); /* does what is to do, never waits; callbacks come from here */
    }
    return state->failed;
}

int main(int argc, char **argv)
{
    struct stele_result result;
    struct state state = {0};
    int status = 1;
    if (argc != 3) {
        fprintf(stderr, "usage: own_loop HOST:PORT TOPIC\n");
        return 2;
    }
    struct stele_client *client = stele_client_new(argv[1], NULL, &result);
    if (client != NULL)
        state.producer = stele_producer_new(client, argv[2], NULL, delivered, &state, &result);
    if (state.producer == NULL)
        fprintf(stderr, "%s\n", result.text);
    else
        status = run(client, &state);
    stele_producer_free(state.producer);
    stele_client_free(client);
    return status;
}
