/* The field lists of the messages of api_peer.h: part of codec.c, in a file of their own for their number. */
#ifndef STELE_PROTO_CODEC_PEER_H
#define STELE_PROTO_CODEC_PEER_H

#include "proto/api_peer.h"
#include "proto/codec_fields.h"
#include "stele.pb-c.h"

#define QUORUM_REPLICA(F)                                                                                              \
    F(int, node_id)                                                                                                    \
    F(uuid, directory_id)
STELE_CODEC_MESSAGE(quorum_replica, struct stele_quorum_replica, Stele__Wire__QuorumReplica, QUORUM_REPLICA)
STELE_CODEC_ARRAY(quorum_replica, struct stele_quorum_replica, Stele__Wire__QuorumReplica)

#define VOTE_REQUEST(F)                                                                                                \
    F(text, cluster_id)                                                                                                \
    F(int, voter_id)                                                                                                   \
    F(uuid, voter_directory_id)                                                                                        \
    F(int, candidate_id)                                                                                               \
    F(uuid, candidate_directory_id)                                                                                    \
    F(int, epoch)                                                                                                      \
    F(int, last_epoch)                                                                                                 \
    F(int, last_offset)                                                                                                \
    F(int, is_pre_vote)
STELE_CODEC_MESSAGE(vote_request, struct stele_vote_request, Stele__Wire__VoteRequest, VOTE_REQUEST)

#define VOTE_RESPONSE(F)                                                                                               \
    F(err, err)                                                                                                        \
    F(int, leader_id)                                                                                                  \
    F(int, leader_epoch)                                                                                               \
    F(int, is_granted)
STELE_CODEC_MESSAGE(vote_response, struct stele_vote_response, Stele__Wire__VoteResponse, VOTE_RESPONSE)

#define BEGIN_QUORUM_EPOCH_REQUEST(F)                                                                                  \
    F(text, cluster_id)                                                                                                \
    F(int, voter_id)                                                                                                   \
    F(uuid, voter_directory_id)                                                                                        \
    F(int, leader_id)                                                                                                  \
    F(int, leader_epoch)
STELE_CODEC_MESSAGE(begin_quorum_epoch_request, struct stele_begin_quorum_epoch_request,
                    Stele__Wire__BeginQuorumEpochRequest, BEGIN_QUORUM_EPOCH_REQUEST)

#define BEGIN_QUORUM_EPOCH_RESPONSE(F)                                                                                 \
    F(err, err)                                                                                                        \
    F(int, leader_id)                                                                                                  \
    F(int, leader_epoch)
STELE_CODEC_MESSAGE(begin_quorum_epoch_response, struct stele_begin_quorum_epoch_response,
                    Stele__Wire__BeginQuorumEpochResponse, BEGIN_QUORUM_EPOCH_RESPONSE)

#define END_QUORUM_EPOCH_REQUEST(F)                                                                                    \
    F(text, cluster_id)                                                                                                \
    F(int, leader_id)                                                                                                  \
    F(int, leader_epoch)                                                                                               \
    F(list, successors, successor_count, quorum_replica)
STELE_CODEC_MESSAGE(end_quorum_epoch_request, struct stele_end_quorum_epoch_request, Stele__Wire__EndQuorumEpochRequest,
                    END_QUORUM_EPOCH_REQUEST)

#define END_QUORUM_EPOCH_RESPONSE(F)                                                                                   \
    F(err, err)                                                                                                        \
    F(int, leader_id)                                                                                                  \
    F(int, leader_epoch)
STELE_CODEC_MESSAGE(end_quorum_epoch_response, struct stele_end_quorum_epoch_response,
                    Stele__Wire__EndQuorumEpochResponse, END_QUORUM_EPOCH_RESPONSE)

#define QUORUM_PROGRESS(F)                                                                                             \
    F(int, node_id)                                                                                                    \
    F(uuid, directory_id)                                                                                              \
    F(text, host)                                                                                                      \
    F(int, port)                                                                                                       \
    F(int, log_end_offset)                                                                                             \
    F(int, last_fetch_ms)                                                                                              \
    F(int, last_caught_up_ms)
STELE_CODEC_MESSAGE(quorum_progress, struct stele_described_voter, Stele__Wire__QuorumProgress, QUORUM_PROGRESS)
STELE_CODEC_ARRAY(quorum_progress, struct stele_described_voter, Stele__Wire__QuorumProgress)

#define DESCRIBE_QUORUM_REQUEST(F) F(int, is_local)
STELE_CODEC_MESSAGE(describe_quorum_request, struct stele_describe_quorum_request, Stele__Wire__DescribeQuorumRequest,
                    DESCRIBE_QUORUM_REQUEST)

#define DESCRIBE_QUORUM_RESPONSE(F)                                                                                    \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(int, node_id)                                                                                                    \
    F(text, role)                                                                                                      \
    F(int, leader_id)                                                                                                  \
    F(int, leader_epoch)                                                                                               \
    F(int, high_watermark)                                                                                             \
    F(list, voters, voter_count, quorum_progress)                                                                      \
    F(list, observers, observer_count, quorum_progress)
STELE_CODEC_MESSAGE(describe_quorum_response, struct stele_describe_quorum_response,
                    Stele__Wire__DescribeQuorumResponse, DESCRIBE_QUORUM_RESPONSE)

#define FETCH_SNAPSHOT_REQUEST(F)                                                                                      \
    F(text, cluster_id)                                                                                                \
    F(int, replica_id)                                                                                                 \
    F(uuid, replica_directory_id)                                                                                      \
    F(int, current_leader_epoch)                                                                                       \
    F(int, end_offset)                                                                                                 \
    F(int, epoch)                                                                                                      \
    F(int, position)                                                                                                   \
    F(int, max_bytes)
STELE_CODEC_MESSAGE(fetch_snapshot_request, struct stele_fetch_snapshot_request, Stele__Wire__FetchSnapshotRequest,
                    FETCH_SNAPSHOT_REQUEST)

#define FETCH_SNAPSHOT_RESPONSE(F)                                                                                     \
    F(err, err)                                                                                                        \
    F(int, leader_id)                                                                                                  \
    F(int, leader_epoch)                                                                                               \
    F(int, snapshot_bytes)                                                                                             \
    F(int, position)                                                                                                   \
    F(int, records_bytes)
STELE_CODEC_MESSAGE(fetch_snapshot_response, struct stele_fetch_snapshot_response, Stele__Wire__FetchSnapshotResponse,
                    FETCH_SNAPSHOT_RESPONSE)

#define ALTER_VOTERS_REQUEST(F)                                                                                        \
    F(choice, change, STELE_VOTER_READMIT)                                                                             \
    F(int, node_id)                                                                                                    \
    F(uuid, directory_id)                                                                                              \
    F(int, timeout_ms)
STELE_CODEC_MESSAGE(alter_voters_request, struct stele_alter_voters_request, Stele__Wire__AlterVotersRequest,
                    ALTER_VOTERS_REQUEST)

#define ALTER_VOTERS_RESPONSE(F)                                                                                       \
    F(err, err)                                                                                                        \
    F(text, message)
STELE_CODEC_MESSAGE(alter_voters_response, struct stele_alter_voters_response, Stele__Wire__AlterVotersResponse,
                    ALTER_VOTERS_RESPONSE)

#define FORM_REQUEST(F)                                                                                                \
    F(int, node_id)                                                                                                    \
    F(uuid, directory_id)                                                                                              \
    F(text, peers)                                                                                                     \
    F(choice, stage, STELE_FORM_FORMED)                                                                                \
    F(text, cluster_id)
STELE_CODEC_MESSAGE(form_request, struct stele_form_request, Stele__Wire__FormRequest, FORM_REQUEST)

#define FORM_RESPONSE(F)                                                                                               \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(int, node_id)                                                                                                    \
    F(uuid, directory_id)                                                                                              \
    F(choice, stage, STELE_FORM_FORMED)                                                                                \
    F(text, cluster_id)
STELE_CODEC_MESSAGE(form_response, struct stele_form_response, Stele__Wire__FormResponse, FORM_RESPONSE)

#define NODE_LISTENER(F)                                                                                               \
    F(text, name)                                                                                                      \
    F(text, host)                                                                                                      \
    F(int, port)
STELE_CODEC_MESSAGE(node_listener, struct stele_listener_address, Stele__Wire__NodeListener, NODE_LISTENER)
STELE_CODEC_ARRAY(node_listener, struct stele_listener_address, Stele__Wire__NodeListener)

#define NODE_DIRECTORY_ID(F)                                                                                           \
    F(uuid, directory_id)                                                                                              \
    F(int, served_epoch)
STELE_CODEC_MESSAGE(node_directory_id, struct stele_node_directory_id, Stele__Wire__NodeDirectoryId, NODE_DIRECTORY_ID)
STELE_CODEC_ARRAY(node_directory_id, struct stele_node_directory_id, Stele__Wire__NodeDirectoryId)

#define REGISTER_NODE_REQUEST(F)                                                                                       \
    F(text, cluster_id)                                                                                                \
    F(int, node_id)                                                                                                    \
    F(uuid, incarnation_id)                                                                                            \
    F(int, previous_node_epoch)                                                                                        \
    F(uuid, boot_id)                                                                                                   \
    F(text, rack)                                                                                                      \
    F(list, listeners, listener_count, node_listener)                                                                  \
    F(list, directories, directory_count, node_directory_id)                                                           \
    F(int, level_min)                                                                                                  \
    F(int, level_max)                                                                                                  \
    F(text, software_version)
STELE_CODEC_MESSAGE(register_node_request, struct stele_register_node_request, Stele__Wire__RegisterNodeRequest,
                    REGISTER_NODE_REQUEST)

#define REGISTER_NODE_RESPONSE(F)                                                                                      \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(int, node_epoch)                                                                                                 \
    F(int, leader_id)
STELE_CODEC_MESSAGE(register_node_response, struct stele_register_node_response, Stele__Wire__RegisterNodeResponse,
                    REGISTER_NODE_RESPONSE)

#define NODE_HEARTBEAT_REQUEST(F)                                                                                      \
    F(int, node_id)                                                                                                    \
    F(int, node_epoch)                                                                                                 \
    F(int, metadata_offset)                                                                                            \
    F(int, wants_fence)                                                                                                \
    F(int, wants_shutdown)                                                                                             \
    F(list, offline_directories, offline_directory_count, node_directory_id)
STELE_CODEC_MESSAGE(node_heartbeat_request, struct stele_node_heartbeat_request, Stele__Wire__NodeHeartbeatRequest,
                    NODE_HEARTBEAT_REQUEST)

#define NODE_HEARTBEAT_RESPONSE(F)                                                                                     \
    F(err, err)                                                                                                        \
    F(int, is_caught_up)                                                                                               \
    F(int, is_fenced)                                                                                                  \
    F(int, should_shutdown)                                                                                            \
    F(int, leader_id)
STELE_CODEC_MESSAGE(node_heartbeat_response, struct stele_node_heartbeat_response, Stele__Wire__NodeHeartbeatResponse,
                    NODE_HEARTBEAT_RESPONSE)

#define ISR_MEMBER(F)                                                                                                  \
    F(int, node_id)                                                                                                    \
    F(int, node_epoch)
STELE_CODEC_MESSAGE(isr_member, struct stele_isr_member, Stele__Wire__IsrMember, ISR_MEMBER)
STELE_CODEC_ARRAY(isr_member, struct stele_isr_member, Stele__Wire__IsrMember)

#define ALTERED_PARTITION(F)                                                                                           \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, leader_epoch)                                                                                               \
    F(int, partition_epoch)                                                                                            \
    F(list, isr, isr_count, isr_member)                                                                                \
    F(int, is_recovering)                                                                                              \
    F(ints, damaged, damaged_count)                                                                                    \
    F(int, is_synced)
STELE_CODEC_MESSAGE(altered_partition, struct stele_altered_partition, Stele__Wire__AlteredPartition, ALTERED_PARTITION)
STELE_CODEC_ARRAY(altered_partition, struct stele_altered_partition, Stele__Wire__AlteredPartition)

#define OFFLINE_REPLICA(F)                                                                                             \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)
STELE_CODEC_MESSAGE(offline_replica, struct stele_offline_replica, Stele__Wire__OfflineReplica, OFFLINE_REPLICA)
STELE_CODEC_ARRAY(offline_replica, struct stele_offline_replica, Stele__Wire__OfflineReplica)

#define ALTER_PARTITION_REQUEST(F)                                                                                     \
    F(int, node_id)                                                                                                    \
    F(int, node_epoch)                                                                                                 \
    F(list, partitions, partition_count, altered_partition)                                                            \
    F(int, request_number)                                                                                             \
    F(list, damaged, damaged_count, offline_replica)                                                                   \
    F(list, offline, offline_count, offline_replica)                                                                   \
    F(int, quorum_epoch)
STELE_CODEC_MESSAGE(alter_partition_request, struct stele_alter_partition_request, Stele__Wire__AlterPartitionRequest,
                    ALTER_PARTITION_REQUEST)

#define ALTER_PARTITION_RESULT(F)                                                                                      \
    F(err, err)                                                                                                        \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, leader_id)                                                                                                  \
    F(int, leader_epoch)                                                                                               \
    F(int, partition_epoch)                                                                                            \
    F(ints, isr, isr_count)                                                                                            \
    F(int, is_recovering)                                                                                              \
    F(int, min_isr)
STELE_CODEC_MESSAGE(alter_partition_result, struct stele_alter_partition_result, Stele__Wire__AlterPartitionResult,
                    ALTER_PARTITION_RESULT)
STELE_CODEC_ARRAY(alter_partition_result, struct stele_alter_partition_result, Stele__Wire__AlterPartitionResult)

#define ALTER_PARTITION_RESPONSE(F)                                                                                    \
    F(err, err)                                                                                                        \
    F(list, results, result_count, alter_partition_result)                                                             \
    F(int, leader_id)
STELE_CODEC_MESSAGE(alter_partition_response, struct stele_alter_partition_response,
                    Stele__Wire__AlterPartitionResponse, ALTER_PARTITION_RESPONSE)

#define UNREGISTER_NODE_REQUEST(F) F(int, node_id)
STELE_CODEC_MESSAGE(unregister_node_request, struct stele_unregister_node_request, Stele__Wire__UnregisterNodeRequest,
                    UNREGISTER_NODE_REQUEST)

#define UNREGISTER_NODE_RESPONSE(F)                                                                                    \
    F(err, err)                                                                                                        \
    F(text, message)
STELE_CODEC_MESSAGE(unregister_node_response, struct stele_unregister_node_response,
                    Stele__Wire__UnregisterNodeResponse, UNREGISTER_NODE_RESPONSE)

#define DESCRIBED_NODE(F)                                                                                              \
    F(int, node_id)                                                                                                    \
    F(int, node_epoch)                                                                                                 \
    F(text, rack)                                                                                                      \
    F(list, listeners, listener_count, node_listener)                                                                  \
    F(list, directories, directory_count, node_directory_id)                                                           \
    F(int, is_fenced)                                                                                                  \
    F(int, is_shutting_down)                                                                                           \
    F(int, last_contact_ms)                                                                                            \
    F(text, software_version)
STELE_CODEC_MESSAGE(described_node, struct stele_described_node, Stele__Wire__DescribedNode, DESCRIBED_NODE)
STELE_CODEC_ARRAY(described_node, struct stele_described_node, Stele__Wire__DescribedNode)

#define DESCRIBE_CLUSTER_REQUEST(F) F(int, is_local)
STELE_CODEC_MESSAGE(describe_cluster_request, struct stele_describe_cluster_request,
                    Stele__Wire__DescribeClusterRequest, DESCRIBE_CLUSTER_REQUEST)

#define DESCRIBE_CLUSTER_RESPONSE(F)                                                                                   \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(text, cluster_id)                                                                                                \
    F(int, controller_id)                                                                                              \
    F(int, level)                                                                                                      \
    F(int, metadata_offset)                                                                                            \
    F(list, nodes, node_count, described_node)
STELE_CODEC_MESSAGE(describe_cluster_response, struct stele_describe_cluster_response,
                    Stele__Wire__DescribeClusterResponse, DESCRIBE_CLUSTER_RESPONSE)

#define PARTITION_NAME(F)                                                                                              \
    F(text, topic)                                                                                                     \
    F(int, partition)
STELE_CODEC_MESSAGE(partition_name, struct stele_partition_name, Stele__Wire__PartitionName, PARTITION_NAME)
STELE_CODEC_ARRAY(partition_name, struct stele_partition_name, Stele__Wire__PartitionName)

#define ELECT_LEADERS_REQUEST(F)                                                                                       \
    F(choice, mode, STELE_ELECTION_UNCLEAN)                                                                            \
    F(list, partitions, partition_count, partition_name)                                                               \
    F(int, timeout_ms)
STELE_CODEC_MESSAGE(elect_leaders_request, struct stele_elect_leaders_request, Stele__Wire__ElectLeadersRequest,
                    ELECT_LEADERS_REQUEST)

#define ELECT_LEADERS_RESULT(F)                                                                                        \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(text, topic)                                                                                                     \
    F(int, partition)                                                                                                  \
    F(int, leader_id)                                                                                                  \
    F(int, leader_epoch)                                                                                               \
    F(int, lost_first_offset)                                                                                          \
    F(int, lost_end_offset)
STELE_CODEC_MESSAGE(elect_leaders_result, struct stele_elect_leaders_result, Stele__Wire__ElectLeadersResult,
                    ELECT_LEADERS_RESULT)
STELE_CODEC_ARRAY(elect_leaders_result, struct stele_elect_leaders_result, Stele__Wire__ElectLeadersResult)

#define ELECT_LEADERS_RESPONSE(F)                                                                                      \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(list, results, result_count, elect_leaders_result)
STELE_CODEC_MESSAGE(elect_leaders_response, struct stele_elect_leaders_response, Stele__Wire__ElectLeadersResponse,
                    ELECT_LEADERS_RESPONSE)

#define REASSIGNED_PARTITION(F)                                                                                        \
    F(text, topic)                                                                                                     \
    F(int, partition)                                                                                                  \
    F(ints, replicas, replica_count)                                                                                   \
    F(int, is_cancelled)
STELE_CODEC_MESSAGE(reassigned_partition, struct stele_reassigned_partition, Stele__Wire__ReassignedPartition,
                    REASSIGNED_PARTITION)
STELE_CODEC_ARRAY(reassigned_partition, struct stele_reassigned_partition, Stele__Wire__ReassignedPartition)

#define REASSIGN_REQUEST(F)                                                                                            \
    F(list, partitions, partition_count, reassigned_partition)                                                         \
    F(int, timeout_ms)
STELE_CODEC_MESSAGE(reassign_request, struct stele_reassign_request, Stele__Wire__ReassignRequest, REASSIGN_REQUEST)

#define REASSIGN_RESULT(F)                                                                                             \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(text, topic)                                                                                                     \
    F(int, partition)
STELE_CODEC_MESSAGE(reassign_result, struct stele_reassign_result, Stele__Wire__ReassignResult, REASSIGN_RESULT)
STELE_CODEC_ARRAY(reassign_result, struct stele_reassign_result, Stele__Wire__ReassignResult)

#define REASSIGN_RESPONSE(F)                                                                                           \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(list, results, result_count, reassign_result)
STELE_CODEC_MESSAGE(reassign_response, struct stele_reassign_response, Stele__Wire__ReassignResponse, REASSIGN_RESPONSE)

#define UPDATE_LEVEL_REQUEST(F) F(int, level)
STELE_CODEC_MESSAGE(update_level_request, struct stele_update_level_request, Stele__Wire__UpdateLevelRequest,
                    UPDATE_LEVEL_REQUEST)

#define UPDATE_LEVEL_RESPONSE(F)                                                                                       \
    F(err, err)                                                                                                        \
    F(text, message)
STELE_CODEC_MESSAGE(update_level_response, struct stele_update_level_response, Stele__Wire__UpdateLevelResponse,
                    UPDATE_LEVEL_RESPONSE)

#endif
