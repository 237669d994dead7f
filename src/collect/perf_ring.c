#include "collect/perf_ring.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "base/mem.h"

static size_t page_size(void)
{
	return (size_t)sysconf(_SC_PAGESIZE);
}

int perf_ring_open(struct perf_ring *r, const struct perf_event_attr *attr, unsigned cpu,
		   size_t pages)
{
	int fd = (int)syscall(SYS_perf_event_open, attr, -1, (int)cpu, -1, PERF_FLAG_FD_CLOEXEC);
	if (fd < 0)
		return -errno;

	void *page =
		mmap(NULL, (pages + 1) * page_size(), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED) {
		int err = -errno;
		close(fd);
		return err;
	}
	*r = (struct perf_ring){fd, pages * page_size(), page};
	return 0;
}

void perf_ring_close(struct perf_ring *r)
{
	if (r->fd < 0)
		return;
	munmap(r->page, r->bytes + page_size());
	close(r->fd);
	r->fd = -1;
}

int perf_ring_drain(struct perf_ring *r, struct perf_ring_room *room, perf_ring_fn *fn, void *ctx,
		    uint64_t *ret_used)
{
	char *data = (char *)r->page + page_size();
	uint64_t head = __atomic_load_n(&r->page->data_head, __ATOMIC_ACQUIRE);
	uint64_t tail = r->page->data_tail;
	int err = 0;

	if (ret_used)
		*ret_used = head - tail;
	while (tail < head) {
		struct perf_event_header *h = (void *)(data + tail % r->bytes);
		uint64_t len = h->size;
		if (len < sizeof(*h) || len > head - tail || len > sizeof(*room)) {
			tail = head; /* cannot be: give up on what is in there */
			err = -EBADMSG;
			break;
		}
		/* Copied out always: it may be changed (NUL ends), and may wrap around. */
		uint64_t first = MIN(len, r->bytes - tail % r->bytes);
		memcpy(room, h, first);
		memcpy((char *)room + first, data, len - first);
		tail += len;
		fn(ctx, (void *)room);
	}
	__atomic_store_n(&r->page->data_tail, tail, __ATOMIC_RELEASE);
	return err;
}
