#include "base/download.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <unistd.h>

#include "base/curl.h"
#include "base/mem.h"

#define SLOW_BYTES    1024L /* a second */
#define REDIRECTS_MAX 5L
#define PROTOCOLS     "http,https"

struct download {
	struct download *next;
	struct downloads *all;
	CURL *easy;
	int fd;
	char *body; /* fd -1: what has come */
	uint64_t body_cap;
	struct curl_slist *connect_to;
	uint64_t max, bytes;
	int error; /* of writing; 0: none */
	void *ctx;
	char why[CURL_ERROR_SIZE];
};

struct downloads {
	struct curl curl;
	CURLM *multi;
	struct download *first;
	uint64_t memory_max;
	_Atomic uint64_t held; /* bytes of bodies, also of those that were handed over */
};

int downloads_new(uint64_t memory_max, struct downloads **ret, const char **ret_why)
{
	CLEANUP(freep) struct downloads *d = mem_alloc(sizeof(*d));

	d->memory_max = memory_max;
	if (!curl_load(&d->curl, ret_why))
		return -ENOENT;
	d->multi = d->curl.multi_init();
	if (!d->multi)
		return -ENOMEM;
	*ret = TAKE_PTR(d);
	return 0;
}

void downloads_release(struct downloads *d, char *body, uint64_t bytes)
{
	if (body)
		atomic_fetch_sub(&d->held, bytes);
	free(body);
}

static void drop(struct download *one)
{
	struct downloads *d = one->all;
	struct download **at = &d->first;

	while (*at != one)
		at = &(*at)->next;
	*at = one->next;
	d->curl.multi_remove_handle(d->multi, one->easy);
	d->curl.easy_cleanup(one->easy);
	d->curl.slist_free_all(one->connect_to);
	downloads_release(d, one->body, one->body_cap);
	free(one);
}

void *downloads_drop(struct downloads *d)
{
	void *ctx = d->first ? d->first->ctx : NULL;

	if (d->first)
		drop(d->first);
	return ctx;
}

void downloads_free(struct downloads *d)
{
	if (!d)
		return;
	while (d->first)
		drop(d->first);
	d->curl.multi_cleanup(d->multi);
	free(d);
}

static long status_of(const struct download *one)
{
	long status = 0;

	one->all->curl.easy_getinfo(one->easy, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

static void give_up(struct download *one)
{
	downloads_release(one->all, TAKE_PTR(one->body), one->body_cap);
	one->body_cap = 0;
	one->error = -ENOBUFS;
}

/* Room for so many bytes; whoever has most of it has to go. False: that is this one. */
static bool make_room(struct download *one, uint64_t bytes)
{
	struct downloads *d = one->all;
	uint64_t cap = MAX(bytes, MIN(2 * one->body_cap, one->max)), more = cap - one->body_cap;

	while (atomic_load(&d->held) + more > d->memory_max) {
		struct download *largest = one;
		for (struct download *i = d->first; i; i = i->next)
			if (i->body_cap > largest->body_cap)
				largest = i;
		give_up(largest);
		if (largest == one)
			return false;
	}
	one->body = mem_resize_array(one->body, cap, 1);
	one->body_cap = cap;
	atomic_fetch_add(&d->held, more);
	return true;
}

static bool keep(struct download *one, const char *bytes, size_t len)
{
	uint64_t had = one->bytes - len;

	if (one->bytes + 1 > one->body_cap && !make_room(one, one->bytes + 1))
		return false;
	memcpy(one->body + had, bytes, len);
	one->body[one->bytes] = '\0';
	return true;
}

static size_t on_bytes(const char *bytes, size_t size, size_t count, void *ctx)
{
	struct download *one = ctx;
	size_t len = size * count;

	if (one->error) /* it was given up */
		return 0;
	one->bytes += len;
	if (one->bytes > one->max) {
		one->error = -EFBIG;
		return 0;
	}
	if (status_of(one) != 200)
		return len;
	if (one->fd < 0)
		return keep(one, bytes, len) ? len : 0;
	for (size_t at = 0; at < len;) {
		ssize_t n = write(one->fd, bytes + at, len - at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0) {
			one->error = n < 0 ? -errno : -EIO;
			return 0;
		}
		at += (size_t)n;
	}
	return len;
}

/* Who we are, and whom we trust. */
static void set_access(struct download *one, const struct download_request *r)
{
	const struct download_access *a = &r->access;
	const struct curl *c = &one->all->curl;
	CURL *easy = one->easy;

	if (a->ca_file)
		c->easy_setopt(easy, CURLOPT_CAINFO, a->ca_file);
	if (a->cert_file)
		c->easy_setopt(easy, CURLOPT_SSLCERT, a->cert_file);
	if (a->key_file)
		c->easy_setopt(easy, CURLOPT_SSLKEY, a->key_file);
	if (a->unverified) {
		c->easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 0L);
		c->easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 0L);
	}
	if (a->user) {
		c->easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BASIC);
		c->easy_setopt(easy, CURLOPT_USERNAME, a->user);
		c->easy_setopt(easy, CURLOPT_PASSWORD, a->password ? a->password : "");
	} else if (a->bearer) {
		c->easy_setopt(easy, CURLOPT_HTTPAUTH, CURLAUTH_BEARER);
		c->easy_setopt(easy, CURLOPT_XOAUTH2_BEARER, a->bearer);
	}
	if (a->direct)
		c->easy_setopt(easy, CURLOPT_PROXY, "");
	c->easy_setopt(easy, CURLOPT_FOLLOWLOCATION, a->stay ? 0L : 1L);
}

int downloads_add(struct downloads *d, const struct download_request *r)
{
	const struct curl *c = &d->curl;
	CURL *easy = c->easy_init();

	if (!easy)
		return -ENOMEM;
	struct download *one = mem_alloc(sizeof(*one));
	*one = (struct download){.next = d->first,
				 .all = d,
				 .easy = easy,
				 .fd = r->fd,
				 .max = r->max,
				 .ctx = r->ctx};
	c->easy_setopt(easy, CURLOPT_URL, r->url);
	c->easy_setopt(easy, CURLOPT_PROTOCOLS_STR, PROTOCOLS);
	c->easy_setopt(easy, CURLOPT_REDIR_PROTOCOLS_STR, PROTOCOLS);
	c->easy_setopt(easy, CURLOPT_MAXREDIRS, REDIRECTS_MAX);
	c->easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
	c->easy_setopt(easy, CURLOPT_QUICK_EXIT, 1L); /* does not wait for name resolution */
	set_access(one, r);
	if (r->connect_to) {
		CLEANUP(freep) char *any = mem_printf("::%s", r->connect_to);
		one->connect_to = c->slist_append(NULL, any);
		c->easy_setopt(easy, CURLOPT_CONNECT_TO, one->connect_to);
	}
	c->easy_setopt(easy, CURLOPT_USERAGENT, "smolder/" SMOLDER_VERSION);
	c->easy_setopt(easy, CURLOPT_ERRORBUFFER, one->why);
	c->easy_setopt(easy, CURLOPT_WRITEFUNCTION, on_bytes);
	c->easy_setopt(easy, CURLOPT_WRITEDATA, one);
	c->easy_setopt(easy, CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)r->max);
	c->easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)r->connect_ms);
	c->easy_setopt(easy, CURLOPT_TIMEOUT_MS, (long)r->total_ms);
	c->easy_setopt(easy, CURLOPT_LOW_SPEED_LIMIT, SLOW_BYTES);
	c->easy_setopt(easy, CURLOPT_LOW_SPEED_TIME, (long)(r->silent_ms / 1000));
	c->easy_setopt(easy, CURLOPT_PRIVATE, one);
	d->first = one;
	if (c->multi_add_handle(d->multi, easy) == CURLM_OK)
		return 0;
	drop(one);
	return -ENOMEM;
}

static int error_of(const struct download *one, CURLcode code)
{
	if (one->error)
		return one->error == -EFBIG || one->error == -ENOBUFS ? one->error : -EIO;
	return code == CURLE_OK                     ? 0
	       : code == CURLE_FILESIZE_EXCEEDED    ? -EFBIG
	       : code == CURLE_OPERATION_TIMEDOUT   ? -ETIMEDOUT
	       : code == CURLE_COULDNT_CONNECT      ? -ECONNREFUSED
	       : code == CURLE_COULDNT_RESOLVE_HOST ? -EHOSTUNREACH
						    : -EPROTO;
}

bool downloads_next(struct downloads *d, struct download_end *ret)
{
	int left;
	CURLMsg *said;

	while ((said = d->curl.multi_info_read(d->multi, &left)) && said->msg != CURLMSG_DONE)
		;
	if (!said)
		return false;
	CURLcode code = said->data.result;
	struct download *one = NULL;
	d->curl.easy_getinfo(said->easy_handle, CURLINFO_PRIVATE, &one);
	*ret = (struct download_end){.ctx = one->ctx,
				     .error = error_of(one, code),
				     .status = (unsigned)status_of(one),
				     .bytes = one->bytes};
	const char *why = one->error == -EFBIG     ? "it is too large"
			  : one->error == -ENOBUFS ? "the answers of all together are too large"
			  : one->error             ? strerror(-one->error)
			  : *one->why              ? one->why
						   : d->curl.easy_strerror(code);
	snprintf(ret->why, sizeof(ret->why), "%s", ret->error ? why : "");
	if (!ret->error && ret->status == 200 && one->body) {
		ret->body = TAKE_PTR(one->body);
		ret->body_cap = one->body_cap;
	}
	drop(one);
	return true;
}

void downloads_wait(struct downloads *d, uint64_t ms)
{
	int running;

	d->curl.multi_perform(d->multi, &running);
	d->curl.multi_poll(d->multi, NULL, 0, (int)MIN(ms, (uint64_t)60000), NULL);
	d->curl.multi_perform(d->multi, &running);
}

void downloads_wake(struct downloads *d)
{
	d->curl.multi_wakeup(d->multi);
}
