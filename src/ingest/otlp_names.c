#include "ingest/otlp_names.h"

#include <string.h>

#include "base/mem.h"

static const struct {
	const char *attribute, *label;
} names[] = {
	{"service.name", "service"},
	{"process.executable.name", "comm"},
	{"thread.name", "thread"},
	{"container.name", "container"},
	{"container.id", "container_id"},
	{"host.name", "host"},
	{"process.pid", "pid"},
	{"thread.id", "tid"},
	{"k8s.pod.name", "pod"},
	{"k8s.pod.uid", "pod_uid"},
	{"k8s.namespace.name", "namespace"},
	{"service.version", "version"},
	{"deployment.environment.name", "environment"},
};

const char *otlp_label(const char *attribute, size_t len)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (len == strlen(names[i].attribute) &&
		    memcmp(attribute, names[i].attribute, len) == 0)
			return names[i].label;
	return NULL;
}

const char *otlp_attribute(const char *label)
{
	for (size_t i = 0; i < ARRAY_SIZE(names); i++)
		if (strcmp(label, names[i].label) == 0)
			return names[i].attribute;
	return label;
}
