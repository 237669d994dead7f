/* Who holds the lock that a thread waits for already: told by its memory, here that of this
 * process. */
#include "unit/unit.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "collect/found_event.h"

static struct offcpu_found waiting_for(const void *word)
{
	return (struct offcpu_found){
		.event = {.pid = (uint32_t)getpid()},
		.details = {.syscall = SYS_futex,
			    .args = {(uintptr_t)word, FUTEX_WAIT | FUTEX_PRIVATE_FLAG, 2}},
	};
}

static void a_mutex_tells_its_owner(void **state)
{
	pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
	struct offcpu_found f = waiting_for(&m);

	(void)state;
	pthread_mutex_lock(&m);
	assert_int_equal(found_event_holder(&f), 0); /* nobody waits for it: it is free by now */
	m.__data.__lock = 2;
	assert_int_equal(found_event_holder(&f), gettid());
	f.details.args[1] = FUTEX_WAIT_BITSET | FUTEX_CLOCK_REALTIME;
	assert_int_equal(found_event_holder(&f), gettid());
}

static void what_is_no_mutex_has_none(void **state)
{
	uint32_t words[3] = {2, 0, 77};
	struct offcpu_found f = waiting_for(words);

	(void)state;
	assert_int_equal(found_event_holder(&f), 77); /* whether it is a thread is asked later */
	f.details.args[2] = 1;
	assert_int_equal(found_event_holder(&f), 0);
	f = waiting_for(words);
	f.details.args[1] = FUTEX_LOCK_PI;
	assert_int_equal(found_event_holder(&f), 0);
	f = waiting_for(words);
	f.details.syscall = SYS_read;
	assert_int_equal(found_event_holder(&f), 0);
	f = waiting_for(NULL);
	assert_int_equal(found_event_holder(&f), 0);
	f = waiting_for((void *)UINTPTR_MAX);
	assert_int_equal(found_event_holder(&f), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_mutex_tells_its_owner),
		cmocka_unit_test(what_is_no_mutex_has_none),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
