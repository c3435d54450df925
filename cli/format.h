/* Numbers as people read them. */
#ifndef STELE_CLI_FORMAT_H
#define STELE_CLI_FORMAT_H

#include <stdint.h>

enum { STELE_FORMAT_BYTES = 48 }; /* room for each of these, with its end */

/** "312 B", "1.5 MiB". */
void stele_format_size(int64_t bytes, char out_text[STELE_FORMAT_BYTES]);
/** "2024-05-01T12:00:03.120Z", which is also how a time may be given. */
void stele_format_time(int64_t ms, char out_text[STELE_FORMAT_BYTES]);
/** The two largest units of it: "3 d 4 h", "5 min 3 s"; below a minute "1.52 s", "12.3 ms", "350 us". */
void stele_format_span(int64_t us, char out_text[STELE_FORMAT_BYTES]);

#endif
