/*
 * tls: loads gnutls, and only when a server is asked for TLS.
 *
 * libmicrohttpd's archive calls gnutls. Linked the usual way, every run of smolder would load
 * libgnutls and the seven libraries behind it; so those calls go through a table that is filled in
 * here. Before that, each of them fails.
 */
#pragma once

/* 0; -ENOENT with *ret_why if libgnutls is not installed (Debian: libgnutls30). */
int tls_load(const char **ret_why);
