/* What was measured of a topic's logs, or of a node, says of three settings: segment.bytes and segment.ms, when
 * segments roll or would roll too often, and segment.index.bytes, when an index is full before its segment is.
 *
 * Too often is more than one roll in ten minutes: at the usual retention of a week that is a thousand segments a
 * partition, each with its files and syncs. It is measured between the latest rolls of a partition, three at least, of
 * which the last is not older than ten minutes; or told from the rate of appending, once that was looked at for a
 * minute. The rate of an index is its bytes by bytes of log, from a megabyte of log on. */
#ifndef STELE_CLI_RATES_H
#define STELE_CLI_RATES_H

#include "client/stele.h"

enum {
    STELE_RATES_ROLL_MS = 600000,        /* rolled more often: too often */
    STELE_RATES_ROLLS_MIN = 3,           /* rolls of a partition, or on the average of all of a node, that tell */
    STELE_RATES_ROLLS_MAX = 10,          /* the latest ones that are looked at */
    STELE_RATES_APPENDED_MS = 60000,     /* appending for so long tells */
    STELE_RATES_LOG_BYTES_MIN = 1 << 20, /* with so much log the rate of its indexes tells */
    STELE_RATES_TEXT_BYTES = 640,
};

enum stele_rates_kind { STELE_RATES_BY_SIZE, STELE_RATES_BY_TIME, STELE_RATES_BY_INDEX, STELE_RATES_KINDS };

/** The settings that hold, then the worst that was seen; all zero before but these. */
struct stele_rates {
    int64_t segment_bytes, index_bytes; /* of a topic */
    int64_t now_ms;

    char topic[256]; /* "": of a node */
    struct {
        int32_t partition;
        int64_t every_ms; /* 0: not seen */
    } rolls[STELE_RATES_KINDS];
    int32_t fill_partition;
    int64_t fill_ms; /* a segment is full after so long at the rate of appending; 0: not known */
    double bytes_a_second;
    int32_t index_partition;
    bool is_index_measured;
    int64_t index_full_bytes;         /* of log that fill an index, at the worst rate */
    int64_t rolls_total, rolls_index; /* of a node */
};

void stele_rates_take_log(struct stele_rates *rates, const struct stele_log_description *log);
/** A node: its counters since it started, over all partitions. */
void stele_rates_take_node(struct stele_rates *rates, const struct stele_node_description *node);
bool stele_rates_tell_of(const char *setting);
/** What they say of a setting, by its name of a topic or of a node: true with a sentence, or with "" when what was
 * measured says that nothing is wrong; false when nothing was measured that tells of it. */
bool stele_rates_warning(const struct stele_rates *rates, const char *setting, char out_text[STELE_RATES_TEXT_BYTES]);

#endif
