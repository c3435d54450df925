/* A line on the terminal that tells how far long work is; nothing when standard error is no terminal. */
#ifndef STELE_CLI_PROGRESS_H
#define STELE_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct stele_progress {
    bool is_on;
    int64_t next_us;
};

void stele_progress_init(struct stele_progress *progress);
/** Whether it is time for the next line: twice a second, first after half a one. */
bool stele_progress_is_due(struct stele_progress *progress);
/** Shows the line in the place of the last one. */
__attribute__((format(printf, 1, 2))) void stele_progress_show(const char *format, ...);
/** Wipes the line. */
void stele_progress_end(struct stele_progress *progress);

#endif
