/* One filled-in message of every kind: what the golden files under golden/ hold. */
#ifndef STELE_PROTO_TEST_SAMPLES_H
#define STELE_PROTO_TEST_SAMPLES_H

#include "proto/codec.h"
#include "proto/metadata_record.h"

#define SAMPLE_ID                                                                                                      \
    {                                                                                                                  \
        .bytes = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16 }                                             \
    }

static const struct stele_api_range sample_apis[] = {{STELE_API_PRODUCE, 1, 1}, {STELE_API_HELLO, 1, 3}};
static const char *const sample_topics[] = {"orders", "payments.eu"};
static const int32_t sample_replicas[] = {1, 2, 3};
static const struct stele_metadata_node sample_nodes[] = {{1, "node-1.example", 7835}, {2, "::1", 65535}};
static const struct stele_metadata_partition sample_partitions[] = {
    {.partition = 0,
     .leader_id = 1,
     .leader_epoch = 5,
     .replicas = sample_replicas,
     .replica_count = 3,
     .isr = sample_replicas,
     .isr_count = 2},
    {.err = STELE_LEADER_NOT_AVAILABLE, .partition = 1, .leader_id = -1, .leader_epoch = -1}};
static const struct stele_metadata_topic sample_topic_rows[] = {
    {.name = "orders", .topic_id = SAMPLE_ID, .partitions = sample_partitions, .partition_count = 2},
    {.err = STELE_UNKNOWN_TOPIC_OR_PARTITION, .name = "gone", .is_internal = true}};
static const struct stele_setting_pair sample_settings[] = {{"retention.ms", "1000"}, {"cleanup.policy", NULL}};
static const struct stele_produce_partition sample_produce_partitions[] = {
    {.topic_id = SAMPLE_ID, .partition = 3, .records_bytes = 70}, {.topic_id = SAMPLE_ID, .records_bytes = UINT32_MAX}};
static const struct stele_produce_result sample_produce_results[] = {{.topic_id = SAMPLE_ID,
                                                                      .partition = 3,
                                                                      .message = "",
                                                                      .base_offset = INT64_MAX,
                                                                      .log_append_time_ms = 1700000000000,
                                                                      .log_start_offset = 12,
                                                                      .durability = STELE_DURABILITY_SYNCED,
                                                                      .current_leader_id = -1,
                                                                      .current_leader_epoch = -1},
                                                                     {.err = STELE_NOT_LEADER_OR_FOLLOWER,
                                                                      .topic_id = SAMPLE_ID,
                                                                      .message = "node 2 leads",
                                                                      .base_offset = -1,
                                                                      .log_append_time_ms = -1,
                                                                      .log_start_offset = -1,
                                                                      .current_leader_id = 2,
                                                                      .current_leader_epoch = 9}};
static const struct stele_fetch_partition sample_fetch_partitions[] = {{.topic_id = SAMPLE_ID,
                                                                        .partition = 1,
                                                                        .fetch_offset = 1000,
                                                                        .max_bytes = 1 << 20,
                                                                        .current_leader_epoch = 4,
                                                                        .last_fetched_epoch = 3,
                                                                        .log_start_offset = -1}};
static const struct stele_aborted_transaction sample_aborted[] = {{.producer_id = 7, .first_offset = 990}};
static const struct stele_fetch_result sample_fetch_results[] = {{.topic_id = SAMPLE_ID,
                                                                  .partition = 1,
                                                                  .high_watermark = 1200,
                                                                  .last_stable_offset = 1100,
                                                                  .log_start_offset = 5,
                                                                  .aborted = sample_aborted,
                                                                  .aborted_count = 1,
                                                                  .records_bytes = 4096,
                                                                  .current_leader_id = -1,
                                                                  .current_leader_epoch = -1},
                                                                 {.err = STELE_OFFSET_OUT_OF_RANGE,
                                                                  .topic_id = SAMPLE_ID,
                                                                  .partition = 2,
                                                                  .high_watermark = -1,
                                                                  .last_stable_offset = -1,
                                                                  .log_start_offset = -1,
                                                                  .current_leader_id = 1,
                                                                  .current_leader_epoch = 2}};
static const struct stele_list_offsets_partition sample_list_partitions[] = {
    {.topic_id = SAMPLE_ID, .partition = 1, .current_leader_epoch = -1, .timestamp = STELE_TIME_EARLIEST},
    {.topic_id = SAMPLE_ID, .partition = 2, .current_leader_epoch = 2, .timestamp = 1700000000000}};
static const struct stele_list_offsets_result sample_list_results[] = {
    {.topic_id = SAMPLE_ID, .partition = 1, .offset = 55, .timestamp = -1, .leader_epoch = 3},
    {.err = STELE_FENCED_LEADER_EPOCH,
     .topic_id = SAMPLE_ID,
     .partition = 2,
     .offset = -1,
     .timestamp = -1,
     .leader_epoch = -1}};

struct sample_request {
    const char *file;
    struct stele_request request;
};

struct sample_response {
    const char *file;
    struct stele_response response;
};

struct sample_record {
    const char *file;
    struct stele_metadata_record record;
};

static const struct sample_request sample_requests[] = {
    {"produce_request",
     {{STELE_API_PRODUCE, 1, 1, "shop"},
      {.produce = {.acks = -1,
                   .timeout_ms = 30000,
                   .partitions = sample_produce_partitions,
                   .partition_count = STELE_ARRAY_LEN(sample_produce_partitions)}}}},
    {"fetch_request",
     {{STELE_API_FETCH, 1, 2, NULL},
      {.fetch = {.replica_id = -1,
                 .max_wait_ms = 500,
                 .min_bytes = 1,
                 .max_bytes = 52428800,
                 .isolation = STELE_READ_COMMITTED,
                 .partitions = sample_fetch_partitions,
                 .partition_count = STELE_ARRAY_LEN(sample_fetch_partitions)}}}},
    {"list_offsets_request",
     {{STELE_API_LIST_OFFSETS, 1, UINT64_MAX, ""},
      {.list_offsets = {.replica_id = -1,
                        .isolation = STELE_READ_UNCOMMITTED,
                        .partitions = sample_list_partitions,
                        .partition_count = STELE_ARRAY_LEN(sample_list_partitions)}}}},
    {"metadata_request",
     {{STELE_API_METADATA, 1, 4, "shop"},
      {.metadata = {.topics = sample_topics, .topic_count = STELE_ARRAY_LEN(sample_topics)}}}},
    {"create_topic_request",
     {{STELE_API_CREATE_TOPIC, 1, 5, "shop"},
      {.create_topic = {.name = "orders",
                        .partition_count = 12,
                        .replication_factor = -1,
                        .settings = sample_settings,
                        .setting_count = STELE_ARRAY_LEN(sample_settings),
                        .timeout_ms = 1000,
                        .validate_only = true}}}},
    {"hello_request",
     {{STELE_API_HELLO, 1, 6, "shop"},
      {.hello = {.software_name = "libstele",
                 .software_version = "0.1.0",
                 .role = STELE_ROLE_ADMIN,
                 .node_id = -1,
                 .cluster_id = "",
                 .apis = sample_apis,
                 .api_count = STELE_ARRAY_LEN(sample_apis)}}}},
};

static const struct sample_response sample_responses[] = {
    {"produce_response",
     {{STELE_API_PRODUCE, 1, 1, 20},
      {.produce = {.results = sample_produce_results, .result_count = STELE_ARRAY_LEN(sample_produce_results)}}}},
    {"fetch_response",
     {{STELE_API_FETCH, 1, 2, 0},
      {.fetch = {.results = sample_fetch_results, .result_count = STELE_ARRAY_LEN(sample_fetch_results)}}}},
    {"list_offsets_response",
     {{STELE_API_LIST_OFFSETS, 1, UINT64_MAX, 0},
      {.list_offsets = {.results = sample_list_results, .result_count = STELE_ARRAY_LEN(sample_list_results)}}}},
    {"metadata_response",
     {{STELE_API_METADATA, 1, 4, 0},
      {.metadata = {.cluster_id = "ABEiM0RVRneImaq7zN3u_w",
                    .controller_id = 1,
                    .nodes = sample_nodes,
                    .node_count = STELE_ARRAY_LEN(sample_nodes),
                    .topics = sample_topic_rows,
                    .topic_count = STELE_ARRAY_LEN(sample_topic_rows)}}}},
    {"create_topic_response",
     {{STELE_API_CREATE_TOPIC, 1, 5, 0},
      {.create_topic = {.err = STELE_TOPIC_ALREADY_EXISTS,
                        .message = "the topic orders exists",
                        .topic_id = SAMPLE_ID,
                        .partition_count = 12,
                        .replication_factor = 3}}}},
    {"hello_response",
     {{STELE_API_HELLO, 1, 6, 0},
      {.hello = {.message = "",
                 .cluster_id = "ABEiM0RVRneImaq7zN3u_w",
                 .node_id = 1,
                 .software_name = "steled",
                 .software_version = "0.1.0",
                 .apis = sample_apis,
                 .api_count = STELE_ARRAY_LEN(sample_apis)}}}},
};

static const struct sample_record sample_records[] = {
    {"record_format",
     {.kind = STELE_METADATA_FORMAT,
      .u.format = {.format = "stele", .level = 1, .cluster_id = "ABEiM0RVRneImaq7zN3u_w"}}},
    {"record_topic", {.kind = STELE_METADATA_TOPIC, .u.topic = {.name = "orders", .topic_id = SAMPLE_ID}}},
    {"record_partition",
     {.kind = STELE_METADATA_PARTITION,
      .u.partition = {.topic_id = SAMPLE_ID,
                      .partition = 3,
                      .leader_id = 1,
                      .leader_epoch = 0,
                      .partition_epoch = 7,
                      .replicas = sample_replicas,
                      .replica_count = 3,
                      .isr = sample_replicas,
                      .isr_count = 1}}},
    {"record_setting",
     {.kind = STELE_METADATA_SETTING,
      .u.setting = {.scope = 2, .subject = "orders", .name = "retention.ms", .value = "86400000"}}},
    {"record_setting_default",
     {.kind = STELE_METADATA_SETTING, .u.setting = {.scope = 0, .subject = "", .name = "log.retention.ms"}}},
};

#endif
