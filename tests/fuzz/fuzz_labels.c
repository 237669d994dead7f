/* What others write that becomes labels: lists of pods, state files of container runtimes, paths of
 * control groups, values that rules look at. The first byte says which it is. */
#include <stdlib.h>
#include <string.h>

#include "process/container.h"
#include "process/container_names.h"
#include "process/places.h"
#include "profile/relabel.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void relabel(char *text)
{
	static const struct relabel_rule rules[] = {
		{.source_labels = {"a", "b"},
		 .regex = "(.*?);(\\w+)(.*)",
		 .target_label = "$2",
		 .replacement = "$1${3}$$$2"},
		{.source_labels = {"a"}, .regex = "(x+x+)+y", .action = "drop"},
		{.source_labels = {"b"}, .target_label = "c", .modulus = "7", .action = "hashmod"},
		{.regex = "(..?)(.*)", .replacement = "$2_$1", .action = "labelmap"},
		{.source_labels = {"a", "b", "c"}, .target_label = "a", .action = "uppercase"},
		{.regex = ".*z", .action = "labeldrop"},
	};
	struct relabel *r = relabel_new();
	struct relabel_labels l = {};
	struct relabel_error e;

	for (size_t i = 0; i < ARRAY_SIZE(rules); i++)
		if (relabel_add(r, &rules[i], &e))
			abort();
	/* Lines are values, in turn of a, b, and of names that they are themselves. */
	int at = 0;
	for (char *save, *line = strtok_r(text, "\n", &save); line;
	     line = strtok_r(NULL, "\n", &save))
		relabel_labels_set(&l, at == 0 ? "a" : at == 1 ? "b" : line, line), at++;
	relabel_apply(r, &l);
	for (size_t i = 0; i < l.count; i++)
		if (strlen(l.list[i].value) > RELABEL_VALUE_MAX)
			abort();
	relabel_labels_done(&l);
	relabel_free(r);
}

/* What is put into a map of places as a collector does it. */
static void on_pod(void *ctx, const struct pod *p)
{
	struct places *places = places_new(NULL, NULL);

	(void)ctx;
	places_pod(places, p);
	places_pod(places, p);
	places_free(places);
}

/* Whatever a kubelet answers becomes messages that can be read. */
static void list_pods(const uint8_t *data, size_t size)
{
	static const char *const labels[] = {"app", "a.b/c", NULL};
	struct pack out = {};
	uint64_t left_out;

	int count = pods_from_json((const char *)data, size, labels, &out, &left_out);
	for (size_t at = 0; count >= 0 && at < out.len;) {
		uint32_t len;
		memcpy(&len, out.bytes + at, sizeof(len));
		at += sizeof(len);
		if (len > PODS_MESSAGE_MAX || at + len > out.len ||
		    pods_read(out.bytes + at, len, on_pod, NULL))
			abort();
		at += len;
	}
	pack_done(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char id[] = "3f4b1c2d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809";
	struct container_names names;
	struct container c;
	const char *tag;

	if (!size)
		return 0;
	char *text = strndup((const char *)data + 1, size - 1);
	if (data[0] == 'p') {
		container_of_cgroup(text, &c);
	} else if (data[0] == 'r') {
		relabel(text);
	} else if (data[0] == 'k') {
		list_pods(data + 1, size - 1);
	} else if (data[0] == 'm') {
		pods_read(data + 1, size - 1, on_pod, NULL);
	} else if (container_names_parse(data[0], (const char *)data + 1, size - 1, id, &names)) {
		if (places_workload(names.pod) > strlen(names.pod))
			abort();
		places_tag(names.image, &tag);
	}
	free(text);
	return 0;
}
