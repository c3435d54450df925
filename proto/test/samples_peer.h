/* Samples of the messages of proto/api_peer.h. */
#ifndef STELE_PROTO_TEST_SAMPLES_PEER_H
#define STELE_PROTO_TEST_SAMPLES_PEER_H

static const struct stele_quorum_replica sample_quorum_replica[] = {{.node_id = 101, .directory_id = SAMPLE_ID},
                                                                    {.node_id = 103, .directory_id = SAMPLE_ID}};
static const struct stele_described_voter sample_quorum_progress[] = {{.node_id = 105,
                                                                       .directory_id = SAMPLE_ID,
                                                                       .host = "host 7",
                                                                       .port = 108,
                                                                       .log_end_offset = 5000000009,
                                                                       .last_fetch_ms = 5000000010,
                                                                       .last_caught_up_ms = 5000000011},
                                                                      {.node_id = 112,
                                                                       .directory_id = SAMPLE_ID,
                                                                       .host = "host 14",
                                                                       .port = 115,
                                                                       .log_end_offset = 5000000016,
                                                                       .last_fetch_ms = 5000000017,
                                                                       .last_caught_up_ms = 5000000018}};
static const struct stele_listener_address sample_node_listener[] = {
    {.name = "name 19", .host = "host 20", .port = 121}, {.name = "name 22", .host = "host 23", .port = 124}};
static const struct stele_node_directory_id sample_node_directory_id[] = {
    {.directory_id = SAMPLE_ID, .served_epoch = 5000000024}, {.directory_id = SAMPLE_ID}};
static const struct stele_isr_member sample_isr_member[] = {{.node_id = 127, .node_epoch = 5000000028},
                                                            {.node_id = 129, .node_epoch = 5000000030}};
static const struct stele_altered_partition sample_altered_partition[] = {
    {.topic_id = SAMPLE_ID,
     .partition = 132,
     .leader_epoch = 133,
     .partition_epoch = 134,
     .isr = sample_isr_member,
     .isr_count = STELE_ARRAY_LEN(sample_isr_member),
     .is_recovering = true},
    {.topic_id = SAMPLE_ID,
     .partition = 137,
     .leader_epoch = 138,
     .partition_epoch = 139,
     .isr = sample_isr_member,
     .isr_count = STELE_ARRAY_LEN(sample_isr_member),
     .is_recovering = true,
     .is_synced = true}};
static const struct stele_alter_partition_result sample_alter_partition_result[] = {{.err = STELE_NOT_CONTROLLER,
                                                                                     .topic_id = SAMPLE_ID,
                                                                                     .partition = 143,
                                                                                     .leader_id = 144,
                                                                                     .leader_epoch = 145,
                                                                                     .partition_epoch = 146,
                                                                                     .isr = sample_replicas,
                                                                                     .isr_count = 3,
                                                                                     .is_recovering = true},
                                                                                    {.err = STELE_NOT_CONTROLLER,
                                                                                     .topic_id = SAMPLE_ID,
                                                                                     .partition = 150,
                                                                                     .leader_id = 151,
                                                                                     .leader_epoch = 152,
                                                                                     .partition_epoch = 153,
                                                                                     .isr = sample_replicas,
                                                                                     .isr_count = 3,
                                                                                     .is_recovering = true}};
static const struct stele_described_node sample_described_node[] = {
    {.node_id = 155,
     .node_epoch = 5000000056,
     .rack = "rack 57",
     .listeners = sample_node_listener,
     .listener_count = STELE_ARRAY_LEN(sample_node_listener),
     .directories = sample_node_directory_id,
     .directory_count = STELE_ARRAY_LEN(sample_node_directory_id),
     .is_fenced = true,
     .is_shutting_down = true,
     .last_contact_ms = 5000000060,
     .software_version = "software version 61"},
    {.node_id = 162,
     .node_epoch = 5000000063,
     .rack = "rack 64",
     .listeners = sample_node_listener,
     .listener_count = STELE_ARRAY_LEN(sample_node_listener),
     .directories = sample_node_directory_id,
     .directory_count = STELE_ARRAY_LEN(sample_node_directory_id),
     .is_fenced = true,
     .is_shutting_down = true,
     .last_contact_ms = 5000000067,
     .software_version = "software version 68"}};
static const struct stele_partition_name sample_partition_name[] = {{.topic = "topic 69", .partition = 170},
                                                                    {.topic = "topic 71", .partition = 172}};
static const struct stele_elect_leaders_result sample_elect_leaders_result[] = {{.err = STELE_NOT_CONTROLLER,
                                                                                 .message = "message 74",
                                                                                 .topic = "topic 75",
                                                                                 .partition = 176,
                                                                                 .leader_id = 177,
                                                                                 .leader_epoch = 178,
                                                                                 .lost_first_offset = 5000000079,
                                                                                 .lost_end_offset = 5000000080},
                                                                                {.err = STELE_NOT_CONTROLLER,
                                                                                 .message = "message 82",
                                                                                 .topic = "topic 83",
                                                                                 .partition = 184,
                                                                                 .leader_id = 185,
                                                                                 .leader_epoch = 186,
                                                                                 .lost_first_offset = 5000000087,
                                                                                 .lost_end_offset = 5000000088}};
static const struct stele_reassigned_partition sample_reassigned_partition[] = {
    {.topic = "topic 89", .partition = 190, .replicas = sample_replicas, .replica_count = 3, .is_cancelled = true},
    {.topic = "topic 92", .partition = 193, .replicas = sample_replicas, .replica_count = 3, .is_cancelled = true}};
static const struct stele_reassign_result sample_reassign_result[] = {
    {.err = STELE_NOT_CONTROLLER, .message = "message 96", .topic = "topic 97", .partition = 198},
    {.err = STELE_NOT_CONTROLLER, .message = "message 100", .topic = "topic 101", .partition = 202}};

static const struct stele_offline_replica sample_offline_replica[] = {{.topic_id = SAMPLE_ID, .partition = 107}};

#define SAMPLE_PEER_REQUESTS                                                                                           \
    {"alter_partition_request",                                                                                        \
     {{STELE_API_ALTER_PARTITION, 1, 30, "node-1"},                                                                    \
      {.alter_partition = {.node_id = 203,                                                                             \
                           .node_epoch = 5000000104,                                                                   \
                           .partitions = sample_altered_partition,                                                     \
                           .partition_count = STELE_ARRAY_LEN(sample_altered_partition),                               \
                           .request_number = 5000000105,                                                               \
                           .offline = sample_offline_replica,                                                          \
                           .offline_count = STELE_ARRAY_LEN(sample_offline_replica),                                   \
                           .quorum_epoch = 106}}}},                                                                    \
        {"alter_voters_request",                                                                                       \
         {{STELE_API_ALTER_VOTERS, 1, 31, "node-1"},                                                                   \
          {.alter_voters =                                                                                             \
               {.change = STELE_VOTER_READMIT, .node_id = 206, .directory_id = SAMPLE_ID, .timeout_ms = 208}}}},       \
        {"begin_quorum_epoch_request",                                                                                 \
         {{STELE_API_BEGIN_QUORUM_EPOCH, 1, 32, "node-1"},                                                             \
          {.begin_quorum_epoch = {.cluster_id = "cluster id 109",                                                      \
                                  .voter_id = 210,                                                                     \
                                  .voter_directory_id = SAMPLE_ID,                                                     \
                                  .leader_id = 212,                                                                    \
                                  .leader_epoch = 213}}}},                                                             \
        {"describe_cluster_request",                                                                                   \
         {{STELE_API_DESCRIBE_CLUSTER, 1, 33, "node-1"}, {.describe_cluster = {.is_local = true}}}},                   \
        {"describe_quorum_request",                                                                                    \
         {{STELE_API_DESCRIBE_QUORUM, 1, 34, "node-1"}, {.describe_quorum = {.is_local = true}}}},                     \
        {"elect_leaders_request",                                                                                      \
         {{STELE_API_ELECT_LEADERS, 1, 35, "node-1"},                                                                  \
          {.elect_leaders = {.mode = STELE_ELECTION_UNCLEAN,                                                           \
                             .partitions = sample_partition_name,                                                      \
                             .partition_count = STELE_ARRAY_LEN(sample_partition_name),                                \
                             .timeout_ms = 217}}}},                                                                    \
        {"end_quorum_epoch_request",                                                                                   \
         {{STELE_API_END_QUORUM_EPOCH, 1, 36, "node-1"},                                                               \
          {.end_quorum_epoch = {.cluster_id = "cluster id 118",                                                        \
                                .leader_id = 219,                                                                      \
                                .leader_epoch = 220,                                                                   \
                                .successors = sample_quorum_replica,                                                   \
                                .successor_count = STELE_ARRAY_LEN(sample_quorum_replica)}}}},                         \
        {"fetch_snapshot_request",                                                                                     \
         {{STELE_API_FETCH_SNAPSHOT, 1, 37, "node-1"},                                                                 \
          {.fetch_snapshot = {.cluster_id = "cluster id 121",                                                          \
                              .replica_id = 222,                                                                       \
                              .replica_directory_id = SAMPLE_ID,                                                       \
                              .current_leader_epoch = 224,                                                             \
                              .end_offset = 5000000125,                                                                \
                              .epoch = 226,                                                                            \
                              .position = 5000000127,                                                                  \
                              .max_bytes = 228}}}},                                                                    \
        {"form_request",                                                                                               \
         {{STELE_API_FORM, 1, 38, "node-1"},                                                                           \
          {.form = {.node_id = 229,                                                                                    \
                    .directory_id = SAMPLE_ID,                                                                         \
                    .peers = "peers 131",                                                                              \
                    .stage = STELE_FORM_FORMED,                                                                        \
                    .cluster_id = "cluster id 133"}}}},                                                                \
        {"node_heartbeat_request",                                                                                     \
         {{STELE_API_NODE_HEARTBEAT, 1, 39, "node-1"},                                                                 \
          {.node_heartbeat = {.node_id = 234,                                                                          \
                              .node_epoch = 5000000135,                                                                \
                              .metadata_offset = 5000000136,                                                           \
                              .wants_fence = true,                                                                     \
                              .wants_shutdown = true,                                                                  \
                              .offline_directories = sample_node_directory_id,                                         \
                              .offline_directory_count = STELE_ARRAY_LEN(sample_node_directory_id)}}}},                \
        {"reassign_request",                                                                                           \
         {{STELE_API_REASSIGN, 1, 40, "node-1"},                                                                       \
          {.reassign = {.partitions = sample_reassigned_partition,                                                     \
                        .partition_count = STELE_ARRAY_LEN(sample_reassigned_partition),                               \
                        .timeout_ms = 239}}}},                                                                         \
        {"register_node_request",                                                                                      \
         {{STELE_API_REGISTER_NODE, 1, 41, "node-1"},                                                                  \
          {.register_node = {.cluster_id = "cluster id 140",                                                           \
                             .node_id = 241,                                                                           \
                             .incarnation_id = SAMPLE_ID,                                                              \
                             .previous_node_epoch = 5000000143,                                                        \
                             .boot_id = SAMPLE_ID,                                                                     \
                             .rack = "rack 146",                                                                       \
                             .listeners = sample_node_listener,                                                        \
                             .listener_count = STELE_ARRAY_LEN(sample_node_listener),                                  \
                             .directories = sample_node_directory_id,                                                  \
                             .directory_count = STELE_ARRAY_LEN(sample_node_directory_id),                             \
                             .level_min = 247,                                                                         \
                             .level_max = 248,                                                                         \
                             .software_version = "software version 149"}}}},                                           \
        {"unregister_node_request",                                                                                    \
         {{STELE_API_UNREGISTER_NODE, 1, 42, "node-1"}, {.unregister_node = {.node_id = 250}}}},                       \
        {"update_level_request", {{STELE_API_UPDATE_LEVEL, 1, 43, "node-1"}, {.update_level = {.level = 251}}}},       \
        {"vote_request",                                                                                               \
         {{STELE_API_VOTE, 1, 44, "node-1"},                                                                           \
          {.vote = {.cluster_id = "cluster id 152",                                                                    \
                    .voter_id = 253,                                                                                   \
                    .voter_directory_id = SAMPLE_ID,                                                                   \
                    .candidate_id = 255,                                                                               \
                    .candidate_directory_id = SAMPLE_ID,                                                               \
                    .epoch = 257,                                                                                      \
                    .last_epoch = 258,                                                                                 \
                    .last_offset = 5000000159,                                                                         \
                    .is_pre_vote = true}}}},

#define SAMPLE_PEER_RESPONSES                                                                                          \
    {"alter_partition_response",                                                                                       \
     {{STELE_API_ALTER_PARTITION, 1, 30, 0, 0, false},                                                                 \
      {.alter_partition = {.err = STELE_NOT_CONTROLLER,                                                                \
                           .results = sample_alter_partition_result,                                                   \
                           .result_count = STELE_ARRAY_LEN(sample_alter_partition_result),                             \
                           .leader_id = 262}}}},                                                                       \
        {"alter_voters_response",                                                                                      \
         {{STELE_API_ALTER_VOTERS, 1, 31, 0, 0, false},                                                                \
          {.alter_voters = {.err = STELE_NOT_CONTROLLER, .message = "message 164"}}}},                                 \
        {"begin_quorum_epoch_response",                                                                                \
         {{STELE_API_BEGIN_QUORUM_EPOCH, 1, 32, 0, 0, false},                                                          \
          {.begin_quorum_epoch = {.err = STELE_NOT_CONTROLLER, .leader_id = 266, .leader_epoch = 267}}}},              \
        {"describe_cluster_response",                                                                                  \
         {{STELE_API_DESCRIBE_CLUSTER, 1, 33, 0, 0, false},                                                            \
          {.describe_cluster = {.err = STELE_NOT_CONTROLLER,                                                           \
                                .message = "message 169",                                                              \
                                .cluster_id = "cluster id 170",                                                        \
                                .controller_id = 271,                                                                  \
                                .level = 272,                                                                          \
                                .metadata_offset = 5000000173,                                                         \
                                .nodes = sample_described_node,                                                        \
                                .node_count = STELE_ARRAY_LEN(sample_described_node)}}}},                              \
        {"describe_quorum_response",                                                                                   \
         {{STELE_API_DESCRIBE_QUORUM, 1, 34, 0, 0, false},                                                             \
          {.describe_quorum = {.err = STELE_NOT_CONTROLLER,                                                            \
                               .message = "message 175",                                                               \
                               .node_id = 276,                                                                         \
                               .role = "role 177",                                                                     \
                               .leader_id = 278,                                                                       \
                               .leader_epoch = 279,                                                                    \
                               .high_watermark = 5000000180,                                                           \
                               .voters = sample_quorum_progress,                                                       \
                               .voter_count = STELE_ARRAY_LEN(sample_quorum_progress),                                 \
                               .observers = sample_quorum_progress,                                                    \
                               .observer_count = STELE_ARRAY_LEN(sample_quorum_progress)}}}},                          \
        {"elect_leaders_response",                                                                                     \
         {{STELE_API_ELECT_LEADERS, 1, 35, 0, 0, false},                                                               \
          {.elect_leaders = {.err = STELE_NOT_CONTROLLER,                                                              \
                             .message = "message 182",                                                                 \
                             .results = sample_elect_leaders_result,                                                   \
                             .result_count = STELE_ARRAY_LEN(sample_elect_leaders_result)}}}},                         \
        {"end_quorum_epoch_response",                                                                                  \
         {{STELE_API_END_QUORUM_EPOCH, 1, 36, 0, 0, false},                                                            \
          {.end_quorum_epoch = {.err = STELE_NOT_CONTROLLER, .leader_id = 284, .leader_epoch = 285}}}},                \
        {"fetch_snapshot_response",                                                                                    \
         {{STELE_API_FETCH_SNAPSHOT, 1, 37, 0, 0, false},                                                              \
          {.fetch_snapshot = {.err = STELE_NOT_CONTROLLER,                                                             \
                              .leader_id = 287,                                                                        \
                              .leader_epoch = 288,                                                                     \
                              .snapshot_bytes = 5000000189,                                                            \
                              .position = 5000000190,                                                                  \
                              .records_bytes = 4000000191U}}}},                                                        \
        {"form_response",                                                                                              \
         {{STELE_API_FORM, 1, 38, 0, 0, false},                                                                        \
          {.form = {.err = STELE_NOT_CONTROLLER,                                                                       \
                    .message = "message 193",                                                                          \
                    .node_id = 294,                                                                                    \
                    .directory_id = SAMPLE_ID,                                                                         \
                    .stage = STELE_FORM_FORMED,                                                                        \
                    .cluster_id = "cluster id 197"}}}},                                                                \
        {"node_heartbeat_response",                                                                                    \
         {{STELE_API_NODE_HEARTBEAT, 1, 39, 0, 0, false},                                                              \
          {.node_heartbeat = {.err = STELE_NOT_CONTROLLER,                                                             \
                              .is_caught_up = true,                                                                    \
                              .is_fenced = true,                                                                       \
                              .should_shutdown = true,                                                                 \
                              .leader_id = 302}}}},                                                                    \
        {"reassign_response",                                                                                          \
         {{STELE_API_REASSIGN, 1, 40, 0, 0, false},                                                                    \
          {.reassign = {.err = STELE_NOT_CONTROLLER,                                                                   \
                        .message = "message 204",                                                                      \
                        .results = sample_reassign_result,                                                             \
                        .result_count = STELE_ARRAY_LEN(sample_reassign_result)}}}},                                   \
        {"register_node_response",                                                                                     \
         {{STELE_API_REGISTER_NODE, 1, 41, 0, 0, false},                                                               \
          {.register_node =                                                                                            \
               {.err = STELE_NOT_CONTROLLER, .message = "message 206", .node_epoch = 5000000207, .leader_id = 308}}}}, \
        {"unregister_node_response",                                                                                   \
         {{STELE_API_UNREGISTER_NODE, 1, 42, 0, 0, false},                                                             \
          {.unregister_node = {.err = STELE_NOT_CONTROLLER, .message = "message 210"}}}},                              \
        {"update_level_response",                                                                                      \
         {{STELE_API_UPDATE_LEVEL, 1, 43, 0, 0, false},                                                                \
          {.update_level = {.err = STELE_NOT_CONTROLLER, .message = "message 212"}}}},                                 \
        {"vote_response",                                                                                              \
         {{STELE_API_VOTE, 1, 44, 0, 0, false},                                                                        \
          {.vote = {.err = STELE_NOT_CONTROLLER, .leader_id = 314, .leader_epoch = 315, .is_granted = true}}}},

#endif
