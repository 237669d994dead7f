#include "base/usage.h"

#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mem.h"

double usage_cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

uint64_t usage_resident_bytes(void)
{
	CLEANUP(freep) char *text = NULL;
	unsigned long long size, resident;

	if (file_read("/proc/self/statm", 4096, &text, NULL) != 0 ||
	    sscanf(text, "%llu %llu", &size, &resident) != 2)
		return 0;
	return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}
