#include <errno.h>
#include "ingest/reader.h"
int pprof_read(struct reader *r)
{
	return reader_fail(r, -EINVAL, "not yet");
}
bool pprof_looks_like(const char *data, size_t len)
{
	(void)data;
	(void)len;
	return false;
}
int perfscript_read(struct reader *r)
{
	return reader_fail(r, -EINVAL, "not yet");
}
bool perfscript_looks_like(const char *data, size_t len)
{
	(void)data;
	(void)len;
	return false;
}
