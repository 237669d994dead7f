#include "collect/trace_stack_source.h"

#include "trace_stack.skel.h"

static int start(struct source *s, const char **ret_doing)
{
	(void)ret_doing;
	s->cpus = s->rings.count;
	return 0;
}

static void stop(struct source *s)
{
	(void)s;
}

static void trace_stack_free(struct source *s)
{
	(void)s;
}

static const struct source_driver driver = {.start = start, .stop = stop, .free = trace_stack_free};

const struct source_kind trace_stack_source = {
	.name = "trace-stacks",
	.type = "trace",
	.unit = "nanoseconds",
	.object = trace_stack__elf_bytes,
	.program = "trace_stack",
	.driver = &driver,
};
