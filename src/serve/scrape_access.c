#include "serve/scrape_access.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/mem.h"

#define SECRET_MAX (64u << 10)

int scrape_read_file(const char *path, size_t max, char **ret, size_t *ret_len)
{
	struct stat st;

	if (stat(path, &st) != 0)
		return -errno;
	return S_ISREG(st.st_mode) ? file_read(path, max, ret, ret_len) : -EINVAL;
}

/* Its first line. NULL with *e: it cannot be read. */
static char *read_secret(const char *path, const char *what, struct found_error *e)
{
	CLEANUP(freep) char *text = NULL;
	size_t len;
	int r = scrape_read_file(path, SECRET_MAX, &text, &len);

	if (r || !text) {
		snprintf(e->text, sizeof(e->text), "cannot read the %s in %.100s: %s", what, path,
			 strerror(-r));
		return NULL;
	}
	return mem_strndup(text, strcspn(text, "\r\n"));
}

bool scrape_access_read(const struct scrape_access *a, struct download_access *ret,
			struct scrape_secrets *ret_secrets, struct found_error *ret_err)
{
	struct scrape_secrets s = {};

	if (a->password_file && !(s.password = read_secret(a->password_file, "password", ret_err)))
		return false;
	if (a->bearer_file && !(s.bearer = read_secret(a->bearer_file, "token", ret_err))) {
		scrape_secrets_done(&s);
		return false;
	}
	*ret_secrets = s;
	*ret = (struct download_access){
		.user = a->user,
		.password = s.password ? s.password : a->password,
		.bearer = s.bearer ? s.bearer : a->bearer,
		.ca_file = a->ca_file,
		.cert_file = a->cert_file,
		.key_file = a->key_file,
		.unverified = a->unverified,
		.stay = a->stay,
		.direct = true,
	};
	return true;
}

void scrape_secrets_done(struct scrape_secrets *s)
{
	free(s->password);
	free(s->bearer);
	*s = (struct scrape_secrets){};
}
