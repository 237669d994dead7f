/*
 * scrape_access: what a request needs to get in, with the files of its secrets read now, since
 * others replace them now and then.
 */
#pragma once

#include "base/download.h"
#include "serve/scrape_config.h"

struct scrape_secrets {
	char *password, *bearer;
};

/* *ret borrows of both others. False with *ret_err: a file cannot be read. */
bool scrape_access_read(const struct scrape_access *a, struct download_access *ret,
			struct scrape_secrets *ret_secrets, struct found_error *ret_err);
void scrape_secrets_done(struct scrape_secrets *s);

/* file_read() of a regular file: nothing waits for what is none (-EINVAL). */
int scrape_read_file(const char *path, size_t max, char **ret, size_t *ret_len);
