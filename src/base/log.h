/*
 * log: messages to the user, on stderr. Other modules return errors; the callers in cli/, serve/
 * and pipeline/ log them.
 */
#pragma once

enum log_level { LOG_QUIET, LOG_NORMAL, LOG_VERBOSE };

extern enum log_level log_level; /* the one global */

/* Writes "smolder: …\n": one sentence that says what failed, on what, why, and what to do. */
__attribute__((format(printf, 1, 2))) void log_error(const char *fmt, ...);
__attribute__((format(printf, 1, 2))) void log_warn(const char *fmt, ...);  /* not under -q */
__attribute__((format(printf, 1, 2))) void log_info(const char *fmt, ...);  /* not under -q */
__attribute__((format(printf, 1, 2))) void log_debug(const char *fmt, ...); /* only under -v */

/* A line that the next one overwrites; only on a terminal, never under -q. */
__attribute__((format(printf, 1, 2))) void log_progress(const char *fmt, ...);
void log_progress_done(void); /* clears it */
