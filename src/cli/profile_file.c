#include "cli/profile_file.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/mem.h"
#include "ingest/ingest.h"

bool profile_file_exists(const char *arg)
{
	return strcmp(arg, "-") == 0 || access(arg, F_OK) == 0;
}

const char *profile_file_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return strcmp(path, "-") == 0 ? NULL : slash ? slash + 1 : path;
}

int profile_file_read(const char *path, struct profile *into)
{
	bool std = strcmp(path, "-") == 0;
	CLEANUP(file_closep) FILE *opened = std ? NULL : fopen(path, "re");
	struct ingest_options o = {};
	struct ingest_report report;

	if (!std && !opened) {
		log_error("cannot read %s: %s", path, strerror(errno));
		return 1;
	}
	if (ingest_read(std ? stdin : opened, &o, into, &report) != 0) {
		log_error("cannot read %s: %s%s%s", std ? "standard input" : path, report.where,
			  *report.where ? ": " : "", report.why);
		return 1;
	}
	if (report.skipped)
		log_warn("%s: %llu lines were not understood and left out", path,
			 (unsigned long long)report.skipped);
	return 0;
}
