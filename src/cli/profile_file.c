#include "cli/profile_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"

bool profile_file_exists(const char *arg)
{
	return strcmp(arg, "-") == 0 || access(arg, F_OK) == 0;
}

const char *profile_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strcmp(path, "-") == 0 ? NULL : slash ? slash + 1 : path;
}

static void report_skipped(const char *name, const struct ingest_report *report)
{
	if (report->skipped)
		log_warn("%s: %llu lines were not understood and have been skipped, the first is "
			 "line %llu",
			 name, (unsigned long long)report->skipped,
			 (unsigned long long)report->skipped_first);
	if (report->other_samples)
		log_warn("%s: %llu samples of other events (%s) have been skipped; 'smolder flame "
			 "--sample-type' selects the event",
			 name, (unsigned long long)report->other_samples, report->other_name);
}

int profile_file_read(const char *path, const struct ingest_options *o, struct profile *into)
{
	bool std = strcmp(path, "-") == 0;
	const char *name = std ? "standard input" : path;
	CLEANUP(file_closep) FILE *opened = std ? NULL : fopen(path, "re");
	struct ingest_report report;

	if (!std && !opened) {
		log_error("cannot read %s: %s", path, strerror(errno));
		return 1;
	}
	if (ingest_read(std ? stdin : opened, o ? o : &(struct ingest_options){}, into, &report) !=
	    0) {
		log_error("cannot read %s: %s%s%s", name, report.where, *report.where ? ": " : "",
			  report.why);
		return 1;
	}
	report_skipped(name, &report);
	return 0;
}
