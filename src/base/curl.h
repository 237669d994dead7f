/*
 * curl: the functions of libcurl (Debian: libcurl4) that are used here.
 *
 * The library is loaded when it is first needed: linking it would cost every run of smolder some
 * megabytes.
 */
#pragma once

#include <curl/curl.h>
#include <stdbool.h>

struct curl {
	__typeof__(curl_easy_init) *easy_init;
	__typeof__(curl_easy_setopt) *easy_setopt;
	__typeof__(curl_easy_perform) *easy_perform;
	__typeof__(curl_easy_getinfo) *easy_getinfo;
	__typeof__(curl_easy_cleanup) *easy_cleanup;
	__typeof__(curl_easy_strerror) *easy_strerror;
	__typeof__(curl_slist_append) *slist_append;
	__typeof__(curl_slist_free_all) *slist_free_all;
	__typeof__(curl_multi_init) *multi_init;
	__typeof__(curl_multi_cleanup) *multi_cleanup;
	__typeof__(curl_multi_add_handle) *multi_add_handle;
	__typeof__(curl_multi_remove_handle) *multi_remove_handle;
	__typeof__(curl_multi_perform) *multi_perform;
	__typeof__(curl_multi_poll) *multi_poll;
	__typeof__(curl_multi_wakeup) *multi_wakeup;
	__typeof__(curl_multi_info_read) *multi_info_read;
};

/* False, with *ret_why as of library_open(): there is no libcurl, or it lacks a function. */
bool curl_load(struct curl *c, const char **ret_why);
