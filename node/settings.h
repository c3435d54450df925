/* The node's settings table (settings.def) and what is made from it. */
#ifndef STELE_NODE_SETTINGS_H
#define STELE_NODE_SETTINGS_H

#include "base/settings.h"
#include "storage/log_config.h"

/** The rows of settings.def. */
const struct stele_setting_row *stele_node_setting_rows(int *out_count);

/** A log's configuration from settings in which a topic's values were laid over the node's. */
void stele_node_log_config(const struct stele_settings *settings, struct stele_log_config *out_config);

#endif
