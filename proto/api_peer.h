/* The requests and answers between nodes, and of people who look after a cluster. Plain structs as those of
 * proto/api.h, which includes this. Votes, epochs, formation, registration, heartbeats, partition changes and snapshots
 * are served on the peer listener only. `message` is "" or says what is wrong and the way out. */
#ifndef STELE_PROTO_API_PEER_H
#define STELE_PROTO_API_PEER_H

#include "base/err.h"
#include "base/uuid.h"

#include <stdbool.h>

/** How far a directory is with the first formation of its cluster. */
enum stele_form_stage { STELE_FORM_EMPTY = 0, STELE_FORM_FORMING = 1, STELE_FORM_FORMED = 2 };

enum stele_voter_change { STELE_VOTER_ADD = 0, STELE_VOTER_REMOVE = 1, STELE_VOTER_READMIT = 2 };

enum stele_election_kind { STELE_ELECTION_PREFERRED = 0, STELE_ELECTION_UNCLEAN = 1 };

struct stele_quorum_replica {
    int32_t node_id;
    struct stele_uuid directory_id;
};

struct stele_vote_request {
    const char *cluster_id;
    int32_t voter_id; /* whom it is meant for */
    struct stele_uuid voter_directory_id;
    int32_t candidate_id;
    struct stele_uuid candidate_directory_id;
    int32_t epoch;       /* the candidate's; of a pre-vote that before it */
    int32_t last_epoch;  /* of the candidate's log */
    int64_t last_offset; /* its end */
    bool is_pre_vote;
};

struct stele_vote_response {
    enum stele_err err;
    int32_t leader_id; /* what the voter knows */
    int32_t leader_epoch;
    bool is_granted;
};

struct stele_begin_quorum_epoch_request {
    const char *cluster_id;
    int32_t voter_id;
    struct stele_uuid voter_directory_id;
    int32_t leader_id;
    int32_t leader_epoch;
};

struct stele_begin_quorum_epoch_response {
    enum stele_err err;
    int32_t leader_id;
    int32_t leader_epoch;
};

struct stele_end_quorum_epoch_request {
    const char *cluster_id;
    int32_t leader_id;
    int32_t leader_epoch;
    const struct stele_quorum_replica *successors; /* the one with the longest log first */
    size_t successor_count;
};

struct stele_end_quorum_epoch_response {
    enum stele_err err;
    int32_t leader_id;
    int32_t leader_epoch;
};

struct stele_described_voter {
    int32_t node_id;
    struct stele_uuid directory_id;
    const char *host;
    int32_t port;
    int64_t log_end_offset; /* what it has synced, as the leader knows; -1 unknown */
    int64_t last_fetch_ms;  /* ago; -1 never */
    int64_t last_caught_up_ms;
};

struct stele_describe_quorum_request {
    bool is_local; /* what the node that answers knows itself; otherwise what the leader knows */
};

struct stele_describe_quorum_response {
    enum stele_err err;
    const char *message;
    int32_t node_id; /* who answers */
    const char *role;
    int32_t leader_id;
    int32_t leader_epoch;
    int64_t high_watermark;
    const struct stele_described_voter *voters;
    size_t voter_count;
    const struct stele_described_voter *observers;
    size_t observer_count;
};

struct stele_fetch_snapshot_request {
    const char *cluster_id;
    int32_t replica_id;
    struct stele_uuid replica_directory_id;
    int32_t current_leader_epoch;
    int64_t end_offset; /* with epoch: which snapshot */
    int32_t epoch;
    int64_t position;
    int32_t max_bytes;
};

struct stele_fetch_snapshot_response {
    enum stele_err err;
    int32_t leader_id;
    int32_t leader_epoch;
    int64_t snapshot_bytes; /* the whole */
    int64_t position;
    uint32_t records_bytes; /* of it, after the message */
};

struct stele_alter_voters_request {
    enum stele_voter_change change;
    int32_t node_id;
    struct stele_uuid directory_id; /* zero: whatever it has now */
    int32_t timeout_ms;
};

struct stele_alter_voters_response {
    enum stele_err err;
    const char *message;
};

struct stele_form_request {
    int32_t node_id; /* place in the list */
    struct stele_uuid directory_id;
    const char *peers; /* the list, as every node must have it */
    enum stele_form_stage stage;
    const char *cluster_id; /* "" when none was drawn */
};

struct stele_form_response {
    enum stele_err err;
    const char *message;
    int32_t node_id;
    struct stele_uuid directory_id;
    enum stele_form_stage stage;
    const char *cluster_id;
};

struct stele_listener_address {
    const char *name;
    const char *host;
    int32_t port;
};

struct stele_node_directory_id {
    struct stele_uuid directory_id;
    int64_t served_epoch; /* in a registration: the last node epoch under which it served; 0: not known */
};

struct stele_register_node_request {
    const char *cluster_id;
    int32_t node_id;
    struct stele_uuid incarnation_id; /* of the process */
    int64_t previous_node_epoch;      /* of the life that ended cleanly; -1: it did not */
    struct stele_uuid boot_id;        /* of the kernel */
    const char *rack;
    const struct stele_listener_address *listeners;
    size_t listener_count;
    const struct stele_node_directory_id *directories;
    size_t directory_count;
    int32_t level_min;
    int32_t level_max;
    const char *software_version;
};

struct stele_register_node_response {
    enum stele_err err;
    const char *message;
    int64_t node_epoch;
    int32_t leader_id; /* with NOT_CONTROLLER: who is */
};

struct stele_node_heartbeat_request {
    int32_t node_id;
    int64_t node_epoch;
    int64_t metadata_offset; /* applied up to here */
    bool wants_fence;
    bool wants_shutdown;
    const struct stele_node_directory_id *offline_directories;
    size_t offline_directory_count;
};

struct stele_node_heartbeat_response {
    enum stele_err err;
    bool is_caught_up;
    bool is_fenced;
    bool should_shutdown;
    int32_t leader_id; /* with NOT_CONTROLLER: who is */
};

struct stele_isr_member {
    int32_t node_id;
    int64_t node_epoch; /* -1 not known */
};

struct stele_altered_partition {
    struct stele_uuid topic_id;
    int32_t partition;
    int32_t leader_epoch;
    int32_t partition_epoch;
    const struct stele_isr_member *isr;
    size_t isr_count;
    bool is_recovering;
    const int32_t *damaged; /* not in isr because they lost records: not to be eligible either */
    size_t damaged_count;
    bool is_synced; /* everything that was committed is on the disks of isr */
};

/** A replica of the node that asks, whose disk or log failed in its present life. */
struct stele_offline_replica {
    struct stele_uuid topic_id;
    int32_t partition;
};

struct stele_alter_partition_request {
    int32_t node_id; /* the leader that asks */
    int64_t node_epoch;
    const struct stele_altered_partition *partitions;
    size_t partition_count;
    int64_t request_number; /* rises within a life of the node; a repetition gets a new one */
    const struct stele_offline_replica *offline;
    size_t offline_count;
    const struct stele_offline_replica *damaged; /* of the node that asks: committed records are damaged there */
    size_t damaged_count;
    int32_t quorum_epoch; /* in which it believes the controller to be: one of another refuses it; 0: not said */
};

struct stele_alter_partition_result {
    enum stele_err err;
    struct stele_uuid topic_id;
    int32_t partition;
    int32_t leader_id;
    int32_t leader_epoch;
    int32_t partition_epoch;
    const int32_t *isr;
    size_t isr_count;
    bool is_recovering;
    int32_t min_isr; /* by which the controller worked it out; 0: not said */
};

struct stele_alter_partition_response {
    enum stele_err err;
    const struct stele_alter_partition_result *results;
    size_t result_count;
    int32_t leader_id; /* with NOT_CONTROLLER: who is */
};

struct stele_unregister_node_request {
    int32_t node_id;
};

struct stele_unregister_node_response {
    enum stele_err err;
    const char *message;
};

struct stele_described_node {
    int32_t node_id;
    int64_t node_epoch;
    const char *rack;
    const struct stele_listener_address *listeners;
    size_t listener_count;
    const struct stele_node_directory_id *directories;
    size_t directory_count;
    bool is_fenced;
    bool is_shutting_down;
    int64_t last_contact_ms; /* ago; -1 never */
    const char *software_version;
};

struct stele_describe_cluster_request {
    bool is_local; /* what the node that answers has applied; otherwise what the controller knows */
};

struct stele_describe_cluster_response {
    enum stele_err err;
    const char *message;
    const char *cluster_id;
    int32_t controller_id;
    int32_t level;
    int64_t metadata_offset;
    const struct stele_described_node *nodes;
    size_t node_count;
};

struct stele_partition_name {
    const char *topic;
    int32_t partition;
};

struct stele_elect_leaders_request {
    enum stele_election_kind mode;
    const struct stele_partition_name *partitions; /* none: all that need it */
    size_t partition_count;
    int32_t timeout_ms;
};

struct stele_elect_leaders_result {
    enum stele_err err;
    const char *message;
    const char *topic;
    int32_t partition;
    int32_t leader_id;
    int32_t leader_epoch;
    int64_t lost_first_offset; /* what an unclean election lost; -1 nothing or not known */
    int64_t lost_end_offset;
};

struct stele_elect_leaders_response {
    enum stele_err err;
    const char *message;
    const struct stele_elect_leaders_result *results;
    size_t result_count;
};

struct stele_reassigned_partition {
    const char *topic;
    int32_t partition;
    const int32_t *replicas;
    size_t replica_count;
    bool is_cancelled; /* back to what they were */
};

struct stele_reassign_request {
    const struct stele_reassigned_partition *partitions;
    size_t partition_count;
    int32_t timeout_ms;
};

struct stele_reassign_result {
    enum stele_err err;
    const char *message;
    const char *topic;
    int32_t partition;
};

struct stele_reassign_response {
    enum stele_err err;
    const char *message;
    const struct stele_reassign_result *results;
    size_t result_count;
};

struct stele_update_level_request {
    int32_t level;
};

struct stele_update_level_response {
    enum stele_err err;
    const char *message;
};

#endif
