#include "node/listeners.h"

#include <stdio.h>
#include <string.h>

enum { ITEM_BYTES = STELE_ADDRESS_BYTES + STELE_LISTENER_NAME_BYTES + 8 };

static const char plain[] = "PLAINTEXT";

/* The next part of a list, without blanks around it; *at is moved behind it. False at the end. */
static bool next_item(const char **at, char out_item[ITEM_BYTES], bool *out_fits)
{
    if (*at == NULL)
        return false;
    const char *from = *at + strspn(*at, " \t");
    size_t bytes = strcspn(from, ",");
    *at = from[bytes] == ',' ? from + bytes + 1 : NULL;
    while (bytes > 0 && (from[bytes - 1] == ' ' || from[bytes - 1] == '\t'))
        bytes--;
    *out_fits = bytes < ITEM_BYTES;
    if (*out_fits) {
        memcpy(out_item, from, bytes);
        out_item[bytes] = 0;
    }
    return true;
}

/* A name as Kafka normalises it. False: it is none. */
static bool take_name(const char *from, size_t bytes, char out_name[STELE_LISTENER_NAME_BYTES])
{
    if (bytes == 0 || bytes >= STELE_LISTENER_NAME_BYTES)
        return false;
    for (size_t i = 0; i < bytes; i++) {
        char c = from[i];
        if (c >= 'a' && c <= 'z')
            c = (char)(c - 'a' + 'A');
        bool is_good = (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '-' || c == '.';
        if (!is_good)
            return false;
        out_name[i] = c;
    }
    out_name[bytes] = 0;
    return true;
}

struct place {
    char name[STELE_LISTENER_NAME_BYTES], host[STELE_HOST_BYTES];
    int32_t port;
};

/* NAME://HOST:PORT, or HOST:PORT, without a place-holder that is none here. */
static bool take_place(const char *item, struct place *out)
{
    if (strchr(item, '{') != NULL)
        return false;
    const char *slashes = strstr(item, "://");
    const char *name = slashes == NULL ? plain : item;
    size_t name_bytes = slashes == NULL ? strlen(plain) : (size_t)(slashes - item);
    return take_name(name, name_bytes, out->name) &&
           stele_address_split(slashes == NULL ? item : slashes + 3, out->host, &out->port) == STELE_OK;
}

static struct stele_listener *find(struct stele_listeners *listeners, const char *name)
{
    for (int i = 0; i < listeners->count; i++) {
        if (strcmp(listeners->items[i].name, name) == 0)
            return &listeners->items[i];
    }
    return NULL;
}

/* Puts the node's number where {node.id} is. False: it does not fit. */
static bool put_number(char item[ITEM_BYTES], int64_t number)
{
    static const char holder[] = "{node.id}";
    char out[ITEM_BYTES];
    size_t at = 0;
    for (const char *from = item; *from != 0 && at < sizeof(out);) {
        bool is_holder = strncmp(from, holder, sizeof(holder) - 1) == 0;
        at += (size_t)(is_holder ? snprintf(out + at, sizeof(out) - at, "%lld", (long long)number)
                                 : snprintf(out + at, sizeof(out) - at, "%c", *from));
        from += is_holder ? sizeof(holder) - 1 : 1;
    }
    if (at >= sizeof(out))
        return false;
    memcpy(item, out, at);
    item[at] = 0;
    return true;
}

/* "A, B" */
static void list_names(const struct stele_listeners *listeners, char *out_text, size_t bytes)
{
    size_t at = 0;
    out_text[0] = 0;
    for (int i = 0; i < listeners->count && at < bytes; i++)
        at += (size_t)snprintf(out_text + at, bytes - at, "%s%s", i > 0 ? ", " : "", listeners->items[i].name);
}

static bool is_ipv4(const char *host)
{
    return host[0] != 0 && strspn(host, "0123456789.") == strlen(host);
}

static bool is_ipv6(const char *host)
{
    return strchr(host, ':') != NULL;
}

static enum stele_err check_port(const struct stele_listeners *listeners, const struct place *place,
                                 struct stele_error *error)
{
    int count = 0;
    for (int i = 0; i < listeners->count; i++) {
        const struct stele_listener *other = &listeners->items[i];
        if (place->port == 0 || other->port != place->port)
            continue;
        bool may_share =
            (is_ipv4(place->host) && is_ipv6(other->host)) || (is_ipv6(place->host) && is_ipv4(other->host));
        if (!may_share || ++count > 1)
            return stele_error_set(error, STELE_INVALID_CONFIG,
                                   "listeners: %s and %s are both on port %d: each needs a port of its own, unless one "
                                   "has an IPv4 and the other an IPv6 address",
                                   other->name, place->name, (int)place->port);
    }
    return STELE_OK;
}

static enum stele_err read_listeners(const struct stele_settings *settings, struct stele_listeners *listeners,
                                     struct stele_error *error)
{
    const char *at = stele_settings_text(settings, "listeners");
    char item[ITEM_BYTES] = "";
    bool fits = false;
    while (next_item(&at, item, &fits)) {
        struct place place;
        if (!fits || !take_place(item, &place))
            return stele_error_set(error, STELE_INVALID_CONFIG,
                                   "listeners: '%.200s' is no address: write NAME://HOST:PORT, or HOST:PORT for one",
                                   fits ? item : "one that is too long");
        if (find(listeners, place.name) != NULL)
            return stele_error_set(error, STELE_INVALID_CONFIG,
                                   "listeners: the name %s is there twice: each listener needs a name of its own, as "
                                   "in INSIDE://:7835,OUTSIDE://:7836",
                                   place.name);
        enum stele_err err = check_port(listeners, &place, error);
        if (err != STELE_OK)
            return err;
        if (listeners->count == STELE_LISTENERS_MAX)
            return stele_error_set(error, STELE_INVALID_CONFIG, "listeners: there may be %d of them",
                                   (int)STELE_LISTENERS_MAX);
        struct stele_listener *listener = &listeners->items[listeners->count++];
        memcpy(listener->name, place.name, sizeof(listener->name));
        memcpy(listener->host, place.host, sizeof(listener->host));
        listener->port = place.port;
    }
    return STELE_OK;
}

static enum stele_err read_advertised(const struct stele_settings *settings, struct stele_listeners *listeners,
                                      struct stele_error *error)
{
    const char *at = stele_settings_text(settings, "advertised.listeners");
    char item[ITEM_BYTES] = "", names[256];
    bool fits = false;
    while (at != NULL && at[0] != 0 && next_item(&at, item, &fits)) {
        struct place place;
        fits = fits && put_number(item, stele_settings_int(settings, "node.id"));
        if (!fits || !take_place(item, &place))
            return stele_error_set(error, STELE_INVALID_CONFIG,
                                   "advertised.listeners: '%.200s' is no address: write NAME://HOST:PORT, with a name "
                                   "that listeners has; {node.id} stands for the node's number",
                                   fits ? item : "one that is too long");
        if (strcmp(place.host, "0.0.0.0") == 0 || strcmp(place.host, "::") == 0)
            return stele_error_set(error, STELE_INVALID_CONFIG,
                                   "advertised.listeners: nobody can connect to %s: name a host that clients reach",
                                   place.host);
        struct stele_listener *listener = find(listeners, place.name);
        list_names(listeners, names, sizeof(names));
        if (listener == NULL)
            return stele_error_set(error, STELE_INVALID_CONFIG,
                                   "advertised.listeners: %s is not among listeners (%s): use one of those names",
                                   place.name, names);
        if (listener->is_advertised)
            return stele_error_set(error, STELE_INVALID_CONFIG, "advertised.listeners: the name %s is there twice",
                                   place.name);
        listener->is_advertised = true;
        memcpy(listener->told_host, place.host, sizeof(listener->told_host));
        listener->told_port = place.port;
    }
    return STELE_OK;
}

static bool is_protocol(const char *name)
{
    static const char *const names[] = {"PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"};
    for (size_t i = 0; i < STELE_ARRAY_LEN(names); i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return false;
}

static enum stele_err check_protocol(const char *listener, const char *protocol, struct stele_error *error)
{
    if (strcmp(protocol, plain) == 0)
        return STELE_OK;
    return stele_error_set(error, STELE_INVALID_CONFIG,
                           "listener %s: the protocol %s is not served yet: give it the protocol PLAINTEXT in "
                           "listener.security.protocol.map, or take it out of listeners",
                           listener, protocol);
}

static enum stele_err read_protocols(const struct stele_settings *settings, struct stele_listeners *listeners,
                                     struct stele_error *error)
{
    const char *at = stele_settings_text(settings, "listener.security.protocol.map");
    bool has_protocol[STELE_LISTENERS_MAX] = {false};
    char item[ITEM_BYTES] = "", name[STELE_LISTENER_NAME_BYTES], protocol[STELE_LISTENER_NAME_BYTES];
    bool fits = false;
    while (at != NULL && at[0] != 0 && next_item(&at, item, &fits)) {
        const char *colon = fits ? strchr(item, ':') : NULL;
        if (colon == NULL || !take_name(item, (size_t)(colon - item), name) ||
            !take_name(colon + 1, strlen(colon + 1), protocol) || !is_protocol(protocol))
            return stele_error_set(error, STELE_INVALID_CONFIG,
                                   "listener.security.protocol.map: '%.200s' is no pair: write NAME:PLAINTEXT",
                                   fits ? item : "one that is too long");
        struct stele_listener *listener = find(listeners, name);
        if (listener == NULL)
            continue; /* as Kafka's own default has them */
        bool *has = &has_protocol[listener - listeners->items];
        if (*has)
            return stele_error_set(error, STELE_INVALID_CONFIG,
                                   "listener.security.protocol.map: the name %s is there twice", name);
        *has = true;
        enum stele_err err = check_protocol(name, protocol, error);
        if (err != STELE_OK)
            return err;
    }
    for (int i = 0; i < listeners->count; i++) {
        const char *of = listeners->items[i].name;
        enum stele_err err = !has_protocol[i] && is_protocol(of) ? check_protocol(of, of, error) : STELE_OK;
        if (err != STELE_OK)
            return err;
    }
    return STELE_OK;
}

static enum stele_err read_peer(const struct stele_settings *settings, struct stele_listeners *listeners,
                                struct stele_error *error)
{
    const char *wanted = stele_settings_text(settings, "inter.broker.listener.name");
    char name[STELE_LISTENER_NAME_BYTES] = "", names[256];
    struct stele_listener *peer = find(listeners, plain);
    if (wanted[0] != 0) {
        list_names(listeners, names, sizeof(names));
        peer = take_name(wanted, strlen(wanted), name) ? find(listeners, name) : NULL;
        if (peer == NULL)
            return stele_error_set(error, STELE_INVALID_CONFIG,
                                   "inter.broker.listener.name: '%.100s' is not among listeners (%s): use one of those "
                                   "names",
                                   wanted, names);
    }
    if (peer == NULL)
        peer = &listeners->items[0];
    peer->is_peer = true;
    return STELE_OK;
}

enum stele_err stele_listeners_read(const struct stele_settings *settings, struct stele_listeners *out_listeners,
                                    struct stele_error *error)
{
    struct stele_listeners listeners = {.count = 0};
    enum stele_err err = read_listeners(settings, &listeners, error);
    if (err == STELE_OK)
        err = read_protocols(settings, &listeners, error);
    if (err == STELE_OK)
        err = read_advertised(settings, &listeners, error);
    if (err == STELE_OK)
        err = read_peer(settings, &listeners, error);
    if (err == STELE_OK)
        *out_listeners = listeners;
    return err;
}

void stele_listeners_settle(struct stele_listeners *listeners, const char *machine)
{
    for (int i = 0; i < listeners->count; i++) {
        struct stele_listener *listener = &listeners->items[i];
        const char *host = listener->is_advertised ? listener->told_host : listener->host;
        if (stele_host_is_any(host))
            (void)snprintf(listener->told_host, sizeof(listener->told_host), "%.255s", machine);
        else if (!listener->is_advertised)
            memcpy(listener->told_host, listener->host, sizeof(listener->told_host));
        if (!listener->is_advertised || listener->told_port == 0)
            listener->told_port = listener->port;
    }
}

void stele_listeners_of_one(struct stele_listeners *listeners, const char *host, int32_t port)
{
    *listeners = (struct stele_listeners){.count = 1};
    struct stele_listener *listener = &listeners->items[0];
    memcpy(listener->name, plain, sizeof(plain));
    (void)snprintf(listener->host, sizeof(listener->host), "%.255s", host);
    listener->port = port;
    listener->is_peer = true;
    stele_listeners_settle(listeners, host);
}
