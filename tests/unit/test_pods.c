#include "unit/unit.h"

#include <stdbool.h>

#include "base/mem.h"
#include "process/places.h"
#include "profile/pods.h"

#define ID  "3f4b1c2d5e6f708192a3b4c5d6e7f8091a2b3c4d5e6f708192a3b4c5d6e7f809"
#define UID "0a1b2c3d-4e5f-6071-8293-a4b5c6d7e8f9"

struct seen {
	struct pod last;
	unsigned count;
};

static void on_pod(void *ctx, const struct pod *p)
{
	struct seen *s = ctx;

	s->last = *p;
	s->count++;
}

/* Reads the messages that a list becomes; returns what pods_from_json() does. */
static int list(const char *json, const char *const *labels, struct seen *ret, uint64_t *left_out)
{
	struct pack out = {};
	unsigned messages = 0;

	*ret = (struct seen){};
	int count = pods_from_json(json, strlen(json), labels, &out, left_out);
	for (size_t at = 0; at < out.len; messages++) {
		uint32_t len;
		memcpy(&len, out.bytes + at, sizeof(len));
		at += sizeof(len);
		assert_true(len <= PODS_MESSAGE_MAX && at + len <= out.len);
		assert_true(pods_is_message(out.bytes + at, len));
		assert_int_equal(pods_read(out.bytes + at, len, on_pod, ret), 0);
		/* A message that is cut is noticed, wherever it is. */
		for (size_t cut = 0; cut < MIN(len, 300u); cut++)
			assert_int_equal(pods_read(out.bytes + at, cut, on_pod, &(struct seen){}),
					 -EBADMSG);
		at += len;
	}
	assert_true(messages <= ret->count);
	pack_done(&out);
	return count;
}

static void reads_what_a_kubelet_answers(void **state)
{
	static const char *const labels[] = {"app.kubernetes.io/name", "none", NULL};
	struct seen s;
	uint64_t left_out;

	(void)state;
	assert_int_equal(
		list("{\"kind\":\"PodList\",\"apiVersion\":\"v1\",\"metadata\":{},\"items\":[{"
		     "\"metadata\":{\"name\":\"web-0\",\"namespace\":\"shop\",\"uid\":\"" UID "\","
		     "\"labels\":{\"app.kubernetes.io/name\":\"web\",\"tier\":\"front\"}},"
		     "\"status\":{\"containerStatuses\":[{\"name\":\"app\",\"image\":\"web:1\","
		     "\"containerID\":\"containerd://" ID "\"},"
		     "{\"name\":\"waiting\",\"image\":\"x\",\"containerID\":\"\"}],"
		     "\"initContainerStatuses\":[{\"name\":\"init\",\"image\":\"init:2\","
		     "\"containerID\":\"cri-o://" ID "\"}]}}]}",
		     labels, &s, &left_out),
		1);
	assert_int_equal(s.count, 1);
	assert_int_equal(left_out, 0);
	assert_string_equal(s.last.uid, UID);
	assert_string_equal(s.last.name, "web-0");
	assert_string_equal(s.last.namespace, "shop");
	assert_int_equal(s.last.container_count, 2);
	assert_string_equal(s.last.containers[0].id, ID);
	assert_string_equal(s.last.containers[0].name, "app");
	assert_string_equal(s.last.containers[0].image, "web:1");
	assert_string_equal(s.last.containers[1].name, "init");
	assert_int_equal(s.last.label_count, 1);
	assert_string_equal(s.last.labels[0].key, "app_kubernetes_io_name");
	assert_string_equal(s.last.labels[0].value, "web");
}

static void knows_static_pods_by_the_hash_of_their_file(void **state)
{
	struct seen s;
	uint64_t left_out;

	(void)state;
	assert_int_equal(
		list("{\"items\":[{\"metadata\":{\"name\":\"etcd-node-1\",\"namespace\":"
		     "\"kube-system\",\"uid\":\"" UID "\",\"annotations\":{"
		     "\"kubernetes.io/config.hash\":\"5f2b7c1d9e0a4b3c8d6e5f4a3b2c1d0e\"}}}]}",
		     NULL, &s, &left_out),
		1);
	assert_string_equal(s.last.uid, "5f2b7c1d9e0a4b3c8d6e5f4a3b2c1d0e");
}

static void refuses_what_is_no_list(void **state)
{
	static const char *const wrong[] = {
		"", "[", "[]", "{}", "7", "{\"items\":{}}", "{\"items\":7}"};
	struct seen s;
	uint64_t left_out;

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++)
		assert_int_equal(list(wrong[i], NULL, &s, &left_out), -EBADMSG);
	assert_int_equal(list("{\"items\":null}", NULL, &s, &left_out), 0);
	assert_int_equal(
		list("{\"items\":[7,{},{\"metadata\":{\"uid\":\"a\"}}]}", NULL, &s, &left_out), 0);
	assert_int_equal(left_out, 3);
}

static void keeps_its_caps(void **state)
{
	CLEANUP(freep) char *json = NULL;
	struct seen s;
	uint64_t left_out;
	size_t len;

	(void)state;
	FILE *f = open_memstream(&json, &len);
	fprintf(f, "{\"items\":[");
	for (int i = 0; i < PODS_MAX + 7; i++) {
		fprintf(f,
			"%s{\"metadata\":{\"name\":\"%0300d\",\"uid\":\"u%d\"},\"status\":{"
			"\"containerStatuses\":[",
			i ? "," : "", i, i);
		for (int k = 0; k < POD_CONTAINERS_MAX + 3; k++)
			fprintf(f, "%s{\"containerID\":\"x://" ID "\",\"name\":\"%d\"}",
				k ? "," : "", k);
		fprintf(f, "]}}");
	}
	fprintf(f, "]}");
	fclose(f);
	assert_int_equal(list(json, NULL, &s, &left_out), PODS_MAX);
	assert_int_equal(left_out, 7);
	assert_int_equal(s.count, PODS_MAX);
	assert_int_equal(strlen(s.last.name), POD_TEXT);
	assert_int_equal(s.last.container_count, POD_CONTAINERS_MAX);

	/* Nor does a collector remember more than that. */
	struct places *p = places_new(NULL, NULL);
	for (int i = 0; i < 3 * PODS_MAX; i++) {
		snprintf(s.last.uid, sizeof(s.last.uid), "u%d", i);
		places_pod(p, &s.last);
	}
	places_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(reads_what_a_kubelet_answers),
		cmocka_unit_test(knows_static_pods_by_the_hash_of_their_file),
		cmocka_unit_test(refuses_what_is_no_list),
		cmocka_unit_test(keeps_its_caps),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
