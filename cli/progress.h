/* A line on the terminal that tells how far long work is; nothing when standard error is no terminal. */
#ifndef STELE_CLI_PROGRESS_H
#define STELE_CLI_PROGRESS_H

#include <stdbool.h>
#include <stdint.h>

struct stele_progress {
    bool is_on, is_shown;
    int64_t next_us;
};

void stele_progress_init(struct stele_progress *progress);
/** Whether it is time for the next line: twice a second, first after half a one. */
bool stele_progress_is_due(struct stele_progress *progress);
/** Shows the line in the place of the last one; what is longer than the terminal is wide is cut. */
__attribute__((format(printf, 2, 3))) void stele_progress_show(struct stele_progress *progress, const char *format,
                                                               ...);
/** Wipes the line, so that something else can be said; the next one comes when it is due. */
void stele_progress_wipe(struct stele_progress *progress);
/** Wipes it for good. */
void stele_progress_end(struct stele_progress *progress);

#endif
