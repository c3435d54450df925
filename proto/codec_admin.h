/* The field lists of the messages of api_admin.h: part of codec.c, in a file of their own for their number. */
#ifndef STELE_PROTO_CODEC_ADMIN_H
#define STELE_PROTO_CODEC_ADMIN_H

#include "proto/api_admin.h"
#include "proto/codec_fields.h"
#include "stele.pb-c.h"

#define SETTING_PAIR(F)                                                                                                \
    F(text, name)                                                                                                      \
    F(text0, value)
STELE_CODEC_MESSAGE(setting_pair, struct stele_setting_pair, Stele__Wire__SettingPair, SETTING_PAIR)
STELE_CODEC_ARRAY(setting_pair, struct stele_setting_pair, Stele__Wire__SettingPair)

#define ASSIGNED_PARTITION(F)                                                                                          \
    F(int, partition)                                                                                                  \
    F(ints, replicas, replica_count)
STELE_CODEC_MESSAGE(assigned_partition, struct stele_assigned_partition, Stele__Wire__AssignedPartition,
                    ASSIGNED_PARTITION)
STELE_CODEC_ARRAY(assigned_partition, struct stele_assigned_partition, Stele__Wire__AssignedPartition)

#define DELETE_TOPIC_REQUEST(F)                                                                                        \
    F(text, name)                                                                                                      \
    F(uuid, topic_id)                                                                                                  \
    F(int, timeout_ms)
STELE_CODEC_MESSAGE(delete_topic_request, struct stele_delete_topic_request, Stele__Wire__DeleteTopicRequest,
                    DELETE_TOPIC_REQUEST)

#define DELETE_TOPIC_RESPONSE(F)                                                                                       \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(text, name)                                                                                                      \
    F(uuid, topic_id)
STELE_CODEC_MESSAGE(delete_topic_response, struct stele_delete_topic_response, Stele__Wire__DeleteTopicResponse,
                    DELETE_TOPIC_RESPONSE)

#define CREATE_PARTITIONS_REQUEST(F)                                                                                   \
    F(text, name)                                                                                                      \
    F(int, partition_count)                                                                                            \
    F(int, timeout_ms)                                                                                                 \
    F(int, validate_only)                                                                                              \
    F(list, assignments, assignment_count, assigned_partition)
STELE_CODEC_MESSAGE(create_partitions_request, struct stele_create_partitions_request,
                    Stele__Wire__CreatePartitionsRequest, CREATE_PARTITIONS_REQUEST)

#define CREATE_PARTITIONS_RESPONSE(F)                                                                                  \
    F(err, err)                                                                                                        \
    F(text, message)
STELE_CODEC_MESSAGE(create_partitions_response, struct stele_create_partitions_response,
                    Stele__Wire__CreatePartitionsResponse, CREATE_PARTITIONS_RESPONSE)

#define DESCRIBE_TOPIC_REQUEST(F)                                                                                      \
    F(texts, topics, topic_count)                                                                                      \
    F(int, all_topics)
STELE_CODEC_MESSAGE(describe_topic_request, struct stele_describe_topic_request, Stele__Wire__DescribeTopicRequest,
                    DESCRIBE_TOPIC_REQUEST)

#define DESCRIBED_PARTITION(F)                                                                                         \
    F(int, partition)                                                                                                  \
    F(err, err)                                                                                                        \
    F(int, leader_id)                                                                                                  \
    F(int, leader_epoch)                                                                                               \
    F(int, partition_epoch)                                                                                            \
    F(ints, replicas, replica_count)                                                                                   \
    F(ints, isr, isr_count)                                                                                            \
    F(ints, elr, elr_count)                                                                                            \
    F(ints, last_known_elr, last_known_elr_count)                                                                      \
    F(ints, adding, adding_count)                                                                                      \
    F(ints, removing, removing_count)                                                                                  \
    F(int, is_recovering)                                                                                              \
    F(ints, offline, offline_count)
STELE_CODEC_MESSAGE(described_partition, struct stele_described_partition, Stele__Wire__DescribedPartition,
                    DESCRIBED_PARTITION)
STELE_CODEC_ARRAY(described_partition, struct stele_described_partition, Stele__Wire__DescribedPartition)

#define DESCRIBED_TOPIC(F)                                                                                             \
    F(err, err)                                                                                                        \
    F(text, name)                                                                                                      \
    F(uuid, topic_id)                                                                                                  \
    F(int, is_internal)                                                                                                \
    F(list, partitions, partition_count, described_partition)                                                          \
    F(list, settings, setting_count, setting_pair)
STELE_CODEC_MESSAGE(described_topic, struct stele_described_topic, Stele__Wire__DescribedTopic, DESCRIBED_TOPIC)
STELE_CODEC_ARRAY(described_topic, struct stele_described_topic, Stele__Wire__DescribedTopic)

#define DESCRIBE_TOPIC_RESPONSE(F)                                                                                     \
    F(err, err)                                                                                                        \
    F(list, topics, topic_count, described_topic)
STELE_CODEC_MESSAGE(describe_topic_response, struct stele_describe_topic_response, Stele__Wire__DescribeTopicResponse,
                    DESCRIBE_TOPIC_RESPONSE)

#define DELETE_RECORDS_PARTITION(F)                                                                                    \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, current_leader_epoch)                                                                                       \
    F(int, offset)
STELE_CODEC_MESSAGE(delete_records_partition, struct stele_delete_records_partition,
                    Stele__Wire__DeleteRecordsPartition, DELETE_RECORDS_PARTITION)
STELE_CODEC_ARRAY(delete_records_partition, struct stele_delete_records_partition, Stele__Wire__DeleteRecordsPartition)

#define DELETE_RECORDS_REQUEST(F)                                                                                      \
    F(list, partitions, partition_count, delete_records_partition)                                                     \
    F(int, timeout_ms)
STELE_CODEC_MESSAGE(delete_records_request, struct stele_delete_records_request, Stele__Wire__DeleteRecordsRequest,
                    DELETE_RECORDS_REQUEST)

#define DELETE_RECORDS_RESULT(F)                                                                                       \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, low_watermark)                                                                                              \
    F(int, current_leader_id)                                                                                          \
    F(int, current_leader_epoch)
STELE_CODEC_MESSAGE(delete_records_result, struct stele_delete_records_result, Stele__Wire__DeleteRecordsResult,
                    DELETE_RECORDS_RESULT)
STELE_CODEC_ARRAY(delete_records_result, struct stele_delete_records_result, Stele__Wire__DeleteRecordsResult)

#define DELETE_RECORDS_RESPONSE(F) F(list, results, result_count, delete_records_result)
STELE_CODEC_MESSAGE(delete_records_response, struct stele_delete_records_response, Stele__Wire__DeleteRecordsResponse,
                    DELETE_RECORDS_RESPONSE)

#define INIT_PRODUCER_ID_REQUEST(F)                                                                                    \
    F(text0, transactional_id)                                                                                         \
    F(int, transaction_timeout_ms)                                                                                     \
    F(int, producer_id)                                                                                                \
    F(int, producer_epoch)
STELE_CODEC_MESSAGE(init_producer_id_request, struct stele_init_producer_id_request, Stele__Wire__InitProducerIdRequest,
                    INIT_PRODUCER_ID_REQUEST)

#define INIT_PRODUCER_ID_RESPONSE(F)                                                                                   \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(int, producer_id)                                                                                                \
    F(int, producer_epoch)
STELE_CODEC_MESSAGE(init_producer_id_response, struct stele_init_producer_id_response,
                    Stele__Wire__InitProducerIdResponse, INIT_PRODUCER_ID_RESPONSE)

#define DESCRIBE_SETTINGS_REQUEST(F)                                                                                   \
    F(choice, kind, STELE_SUBJECT_TOPIC)                                                                               \
    F(text, subject)                                                                                                   \
    F(texts, names, name_count)                                                                                        \
    F(int, with_doc)                                                                                                   \
    F(int, with_history)
STELE_CODEC_MESSAGE(describe_settings_request, struct stele_describe_settings_request,
                    Stele__Wire__DescribeSettingsRequest, DESCRIBE_SETTINGS_REQUEST)

#define DESCRIBED_SETTING(F)                                                                                           \
    F(text, name)                                                                                                      \
    F(text0, value)                                                                                                    \
    F(choice, origin, STELE_SETTING_OF_TOPIC)                                                                          \
    F(text, origin_detail)                                                                                             \
    F(text0, default_value)                                                                                            \
    F(int, is_dynamic)                                                                                                 \
    F(text, doc)                                                                                                       \
    F(text, warning)
STELE_CODEC_MESSAGE(described_setting, struct stele_described_setting, Stele__Wire__DescribedSetting, DESCRIBED_SETTING)
STELE_CODEC_ARRAY(described_setting, struct stele_described_setting, Stele__Wire__DescribedSetting)

#define SETTING_CHANGE(F)                                                                                              \
    F(int, time_ms)                                                                                                    \
    F(choice, kind, STELE_SUBJECT_TOPIC)                                                                               \
    F(text, subject)                                                                                                   \
    F(text, name)                                                                                                      \
    F(text0, value)
STELE_CODEC_MESSAGE(setting_change, struct stele_setting_change, Stele__Wire__SettingChange, SETTING_CHANGE)
STELE_CODEC_ARRAY(setting_change, struct stele_setting_change, Stele__Wire__SettingChange)

#define DESCRIBE_SETTINGS_RESPONSE(F)                                                                                  \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(list, settings, setting_count, described_setting)                                                                \
    F(list, changes, change_count, setting_change)
STELE_CODEC_MESSAGE(describe_settings_response, struct stele_describe_settings_response,
                    Stele__Wire__DescribeSettingsResponse, DESCRIBE_SETTINGS_RESPONSE)

#define ALTERED_SETTING(F)                                                                                             \
    F(text, name)                                                                                                      \
    F(text0, value)
STELE_CODEC_MESSAGE(altered_setting, struct stele_altered_setting, Stele__Wire__AlteredSetting, ALTERED_SETTING)
STELE_CODEC_ARRAY(altered_setting, struct stele_altered_setting, Stele__Wire__AlteredSetting)

#define ALTER_SETTINGS_REQUEST(F)                                                                                      \
    F(choice, kind, STELE_SUBJECT_TOPIC)                                                                               \
    F(text, subject)                                                                                                   \
    F(list, settings, setting_count, altered_setting)                                                                  \
    F(int, validate_only)
STELE_CODEC_MESSAGE(alter_settings_request, struct stele_alter_settings_request, Stele__Wire__AlterSettingsRequest,
                    ALTER_SETTINGS_REQUEST)

#define ALTER_SETTINGS_RESPONSE(F)                                                                                     \
    F(err, err)                                                                                                        \
    F(text, message)
STELE_CODEC_MESSAGE(alter_settings_response, struct stele_alter_settings_response, Stele__Wire__AlterSettingsResponse,
                    ALTER_SETTINGS_RESPONSE)

#define DESCRIBE_LOG_PARTITION(F)                                                                                      \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)
STELE_CODEC_MESSAGE(describe_log_partition, struct stele_describe_log_partition, Stele__Wire__DescribeLogPartition,
                    DESCRIBE_LOG_PARTITION)
STELE_CODEC_ARRAY(describe_log_partition, struct stele_describe_log_partition, Stele__Wire__DescribeLogPartition)

#define DESCRIBE_LOG_REQUEST(F)                                                                                        \
    F(list, partitions, partition_count, describe_log_partition)                                                       \
    F(int, with_segments)                                                                                              \
    F(int, with_stats)                                                                                                 \
    F(int, with_epochs)
STELE_CODEC_MESSAGE(describe_log_request, struct stele_describe_log_request, Stele__Wire__DescribeLogRequest,
                    DESCRIBE_LOG_REQUEST)

#define DESCRIBED_SEGMENT(F)                                                                                           \
    F(int, base_offset)                                                                                                \
    F(int, next_offset)                                                                                                \
    F(int, bytes)                                                                                                      \
    F(int, offset_index_bytes)                                                                                         \
    F(int, time_index_bytes)                                                                                           \
    F(int, txn_index_bytes)                                                                                            \
    F(int, first_timestamp)                                                                                            \
    F(int, largest_timestamp)                                                                                          \
    F(int, modified_ms)                                                                                                \
    F(text, rolled_because)                                                                                            \
    F(text, kept_because)                                                                                              \
    F(int, delete_at_ms)
STELE_CODEC_MESSAGE(described_segment, struct stele_described_segment, Stele__Wire__DescribedSegment, DESCRIBED_SEGMENT)
STELE_CODEC_ARRAY(described_segment, struct stele_described_segment, Stele__Wire__DescribedSegment)

#define LOG_EVENT(F)                                                                                                   \
    F(int, time_ms)                                                                                                    \
    F(text, kind)                                                                                                      \
    F(int, offset)                                                                                                     \
    F(int, bytes)                                                                                                      \
    F(text, reason)
STELE_CODEC_MESSAGE(log_event, struct stele_log_event, Stele__Wire__LogEvent, LOG_EVENT)
STELE_CODEC_ARRAY(log_event, struct stele_log_event, Stele__Wire__LogEvent)

#define DESCRIBED_DAMAGE(F)                                                                                            \
    F(int, first_offset)                                                                                               \
    F(int, last_offset)                                                                                                \
    F(int, segment_base)                                                                                               \
    F(int, pos)
STELE_CODEC_MESSAGE(described_damage, struct stele_described_damage, Stele__Wire__DescribedDamage, DESCRIBED_DAMAGE)
STELE_CODEC_ARRAY(described_damage, struct stele_described_damage, Stele__Wire__DescribedDamage)

#define HISTOGRAM_BUCKET(F)                                                                                            \
    F(int, up_to)                                                                                                      \
    F(int, count)
STELE_CODEC_MESSAGE(histogram_bucket, struct stele_histogram_bucket, Stele__Wire__HistogramBucket, HISTOGRAM_BUCKET)
STELE_CODEC_ARRAY(histogram_bucket, struct stele_histogram_bucket, Stele__Wire__HistogramBucket)

#define LOG_HISTOGRAM(F)                                                                                               \
    F(text, name)                                                                                                      \
    F(int, count)                                                                                                      \
    F(int, sum)                                                                                                        \
    F(int, max)                                                                                                        \
    F(list, buckets, bucket_count, histogram_bucket)
STELE_CODEC_MESSAGE(log_histogram, struct stele_log_histogram, Stele__Wire__LogHistogram, LOG_HISTOGRAM)
STELE_CODEC_ARRAY(log_histogram, struct stele_log_histogram, Stele__Wire__LogHistogram)

#define REPLICA_PROGRESS(F)                                                                                            \
    F(int, node_id)                                                                                                    \
    F(int, log_end_offset)                                                                                             \
    F(int, synced_offset)                                                                                              \
    F(int, last_caught_up_ms)                                                                                          \
    F(int, is_in_sync)
STELE_CODEC_MESSAGE(replica_progress, struct stele_replica_progress, Stele__Wire__ReplicaProgress, REPLICA_PROGRESS)
STELE_CODEC_ARRAY(replica_progress, struct stele_replica_progress, Stele__Wire__ReplicaProgress)

#define DESCRIBED_EPOCH(F)                                                                                             \
    F(int, epoch)                                                                                                      \
    F(int, start_offset)
STELE_CODEC_MESSAGE(described_epoch, struct stele_described_epoch, Stele__Wire__DescribedEpoch, DESCRIBED_EPOCH)
STELE_CODEC_ARRAY(described_epoch, struct stele_described_epoch, Stele__Wire__DescribedEpoch)

#define DESCRIBED_LOG(F)                                                                                               \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(text, directory)                                                                                                 \
    F(int, leader_epoch)                                                                                               \
    F(int, log_start_offset)                                                                                           \
    F(int, high_watermark)                                                                                             \
    F(int, last_stable_offset)                                                                                         \
    F(int, log_end_offset)                                                                                             \
    F(int, recovery_point)                                                                                             \
    F(int, bytes)                                                                                                      \
    F(int, segment_total)                                                                                              \
    F(int, producer_total)                                                                                             \
    F(int, bytes_appended)                                                                                             \
    F(int, appended_ms)                                                                                                \
    F(list, segments, segment_count, described_segment)                                                                \
    F(list, events, event_count, log_event)                                                                            \
    F(list, damaged, damaged_count, described_damage)                                                                  \
    F(list, histograms, histogram_count, log_histogram)                                                                \
    F(list, replicas, replica_count, replica_progress)                                                                 \
    F(int, leader_id)                                                                                                  \
    F(int, epoch_start_offset)                                                                                         \
    F(list, epochs, epoch_count, described_epoch)
STELE_CODEC_MESSAGE(described_log, struct stele_described_log, Stele__Wire__DescribedLog, DESCRIBED_LOG)
STELE_CODEC_ARRAY(described_log, struct stele_described_log, Stele__Wire__DescribedLog)

#define DESCRIBE_LOG_RESPONSE(F) F(list, logs, log_count, described_log)
STELE_CODEC_MESSAGE(describe_log_response, struct stele_describe_log_response, Stele__Wire__DescribeLogResponse,
                    DESCRIBE_LOG_RESPONSE)

#define NODE_STATUS_REQUEST(F)                                                                                         \
    F(int, slow_requests_max)                                                                                          \
    F(int, with_metrics)
STELE_CODEC_MESSAGE(node_status_request, struct stele_node_status_request, Stele__Wire__NodeStatusRequest,
                    NODE_STATUS_REQUEST)

#define NODE_DIRECTORY(F)                                                                                              \
    F(text, path)                                                                                                      \
    F(int, is_offline)                                                                                                 \
    F(int, is_full)                                                                                                    \
    F(int, free_bytes)                                                                                                 \
    F(int, reserve_bytes)                                                                                              \
    F(int, partition_count)
STELE_CODEC_MESSAGE(node_directory, struct stele_node_directory, Stele__Wire__NodeDirectory, NODE_DIRECTORY)
STELE_CODEC_ARRAY(node_directory, struct stele_node_directory, Stele__Wire__NodeDirectory)

#define NODE_METRIC(F)                                                                                                 \
    F(text, name)                                                                                                      \
    F(int, value)
STELE_CODEC_MESSAGE(node_metric, struct stele_node_metric, Stele__Wire__NodeMetric, NODE_METRIC)
STELE_CODEC_ARRAY(node_metric, struct stele_node_metric, Stele__Wire__NodeMetric)

#define SLOW_REQUEST(F)                                                                                                \
    F(int, time_ms)                                                                                                    \
    F(int, api)                                                                                                        \
    F(text, client_id)                                                                                                 \
    F(text, peer)                                                                                                      \
    F(int, total_us)                                                                                                   \
    F(int, queue_us)                                                                                                   \
    F(int, append_us)                                                                                                  \
    F(int, fsync_us)                                                                                                   \
    F(int, read_us)                                                                                                    \
    F(int, reply_us)                                                                                                   \
    F(int, bytes)                                                                                                      \
    F(int, segments_searched)                                                                                          \
    F(int, bytes_scanned)                                                                                              \
    F(int, was_cold)
STELE_CODEC_MESSAGE(slow_request, struct stele_slow_request, Stele__Wire__SlowRequest, SLOW_REQUEST)
STELE_CODEC_ARRAY(slow_request, struct stele_slow_request, Stele__Wire__SlowRequest)

#define NODE_STATUS_RESPONSE(F)                                                                                        \
    F(err, err)                                                                                                        \
    F(int, node_id)                                                                                                    \
    F(text, cluster_id)                                                                                                \
    F(text, software_version)                                                                                          \
    F(int, uptime_ms)                                                                                                  \
    F(int, shard_count)                                                                                                \
    F(int, connection_count)                                                                                           \
    F(int, topic_count)                                                                                                \
    F(int, partition_count)                                                                                            \
    F(int, offline_count)                                                                                              \
    F(int, memory_bytes)                                                                                               \
    F(int, memory_limit_bytes)                                                                                         \
    F(int, longest_stall_us)                                                                                           \
    F(list, directories, directory_count, node_directory)                                                              \
    F(list, metrics, metric_count, node_metric)                                                                        \
    F(list, slow_requests, slow_request_count, slow_request)
STELE_CODEC_MESSAGE(node_status_response, struct stele_node_status_response, Stele__Wire__NodeStatusResponse,
                    NODE_STATUS_RESPONSE)

#define MOVED_REPLICA(F)                                                                                               \
    F(text, topic)                                                                                                     \
    F(int, partition)                                                                                                  \
    F(text, directory)
STELE_CODEC_MESSAGE(moved_replica, struct stele_moved_replica, Stele__Wire__MovedReplica, MOVED_REPLICA)
STELE_CODEC_ARRAY(moved_replica, struct stele_moved_replica, Stele__Wire__MovedReplica)

#define ALTER_LOG_DIRS_REQUEST(F)                                                                                      \
    F(int, node_id)                                                                                                    \
    F(list, replicas, replica_count, moved_replica)
STELE_CODEC_MESSAGE(alter_log_dirs_request, struct stele_alter_log_dirs_request, Stele__Wire__AlterLogDirsRequest,
                    ALTER_LOG_DIRS_REQUEST)

#define ALTER_LOG_DIRS_RESULT(F)                                                                                       \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(text, topic)                                                                                                     \
    F(int, partition)
STELE_CODEC_MESSAGE(alter_log_dirs_result, struct stele_alter_log_dirs_result, Stele__Wire__AlterLogDirsResult,
                    ALTER_LOG_DIRS_RESULT)
STELE_CODEC_ARRAY(alter_log_dirs_result, struct stele_alter_log_dirs_result, Stele__Wire__AlterLogDirsResult)

#define ALTER_LOG_DIRS_RESPONSE(F) F(list, results, result_count, alter_log_dirs_result)
STELE_CODEC_MESSAGE(alter_log_dirs_response, struct stele_alter_log_dirs_response, Stele__Wire__AlterLogDirsResponse,
                    ALTER_LOG_DIRS_RESPONSE)

#define DESCRIBE_LOG_DIRS_REQUEST(F)                                                                                   \
    F(int, node_id)                                                                                                    \
    F(texts, topics, topic_count)
STELE_CODEC_MESSAGE(describe_log_dirs_request, struct stele_describe_log_dirs_request,
                    Stele__Wire__DescribeLogDirsRequest, DESCRIBE_LOG_DIRS_REQUEST)

#define DESCRIBED_REPLICA(F)                                                                                           \
    F(text, topic)                                                                                                     \
    F(uuid, topic_id)                                                                                                  \
    F(int, partition)                                                                                                  \
    F(int, bytes)                                                                                                      \
    F(int, log_end_offset)                                                                                             \
    F(int, offset_lag)                                                                                                 \
    F(int, is_future)                                                                                                  \
    F(int, is_offline)
STELE_CODEC_MESSAGE(described_replica, struct stele_described_replica, Stele__Wire__DescribedReplica, DESCRIBED_REPLICA)
STELE_CODEC_ARRAY(described_replica, struct stele_described_replica, Stele__Wire__DescribedReplica)

#define DESCRIBED_LOG_DIR(F)                                                                                           \
    F(err, err)                                                                                                        \
    F(text, path)                                                                                                      \
    F(int, free_bytes)                                                                                                 \
    F(list, replicas, replica_count, described_replica)
STELE_CODEC_MESSAGE(described_log_dir, struct stele_described_log_dir, Stele__Wire__DescribedLogDir, DESCRIBED_LOG_DIR)
STELE_CODEC_ARRAY(described_log_dir, struct stele_described_log_dir, Stele__Wire__DescribedLogDir)

#define DESCRIBE_LOG_DIRS_RESPONSE(F)                                                                                  \
    F(err, err)                                                                                                        \
    F(text, message)                                                                                                   \
    F(int, node_id)                                                                                                    \
    F(list, directories, directory_count, described_log_dir)
STELE_CODEC_MESSAGE(describe_log_dirs_response, struct stele_describe_log_dirs_response,
                    Stele__Wire__DescribeLogDirsResponse, DESCRIBE_LOG_DIRS_RESPONSE)

#endif
