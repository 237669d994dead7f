#include "base/log.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

enum log_level log_level = LOG_NORMAL;

static void say(const char *prefix, const char *fmt, va_list ap)
{
	log_progress_done();
	fputs(prefix, stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
}

#define DEFINE_LOG(name, least, prefix)                                                            \
	void name(const char *fmt, ...)                                                            \
	{                                                                                          \
		va_list ap;                                                                        \
		if (log_level < (least))                                                           \
			return;                                                                    \
		va_start(ap, fmt);                                                                 \
		say((prefix), fmt, ap);                                                            \
		va_end(ap);                                                                        \
	}

DEFINE_LOG(log_error, LOG_QUIET, "smolder: ")
DEFINE_LOG(log_warn, LOG_NORMAL, "smolder: ")
DEFINE_LOG(log_info, LOG_NORMAL, "")
DEFINE_LOG(log_debug, LOG_VERBOSE, "smolder: ")

static bool progress_shown;

void log_progress(const char *fmt, ...)
{
	if (log_level < LOG_NORMAL || !isatty(STDERR_FILENO))
		return;

	va_list ap;
	va_start(ap, fmt);
	fputs("\r\033[K", stderr);
	vfprintf(stderr, fmt, ap);
	va_end(ap);
	fflush(stderr);
	progress_shown = true;
}

void log_progress_done(void)
{
	if (!progress_shown)
		return;
	fputs("\r\033[K", stderr);
	progress_shown = false;
}
