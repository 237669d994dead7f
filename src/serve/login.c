/*
 * login: who may ask.
 *
 * On loopback the kernel says which user asks, and some may (serve/access.h). Others, and everybody
 * beyond loopback, bring the token where there is one. Programs bring it in a header. A browser
 * that brings neither header nor cookie is sent to a form, and from there back to where it wanted
 * to go; the form has no `action`, so that a fragment (the state of the page) goes along. Nothing
 * here needs a script.
 */
#include <inttypes.h>
#include <pwd.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "render/escape.h"
#include "serve/server_internal.h"

#define NEXT_MAX 2048

/* Of this server alone: others on the machine have other ports, but share its cookies. */
static void cookie_name(const struct server *s, char ret[static 32])
{
	const char *colon = strrchr(http_address(s->http), ':');

	snprintf(ret, 32, "smolder-%.10s", colon ? colon + 1 : "");
}

static bool is_known(const struct server *s, struct http_request *r)
{
	char name[32];
	uid_t uid;

	if (http_owner(r, &uid) == 0 &&
	    (http_sends(r) ? access_may_send(s->access, uid)
			   : access_may_look(s->access, uid, clock_ms(CLOCK_MONOTONIC))))
		return true;
	if (!s->token)
		return false;
	cookie_name(s, name);
	return token_in_bearer(s->token, http_header(r, "Authorization")) ||
	       token_in_cookie(s->token, http_cookie(r, name), (uint64_t)time(NULL));
}

/* A place on this server: a path, and nothing that a browser takes for another host. */
static const char *next_of(const struct http_request *r)
{
	const char *next = http_param(r, "next");

	if (!next || next[0] != '/' || next[1] == '/' || strlen(next) > NEXT_MAX)
		return "/";
	for (const char *c = next; *c; c++)
		if (*c == '\\' || *c <= ' ' || *c > '~')
			return "/";
	return next;
}

static bool wants_page(const struct http_request *r)
{
	const char *accept = http_header(r, "Accept");

	return accept && strstr(accept, "text/html");
}

static void send_to(struct http_request *r, const char *where, const char *cookie)
{
	http_answer(
		r, &(struct http_answer){.status = 303,
					 .type = "text/plain; charset=utf-8",
					 .headers = {{"Location", where}, {"Set-Cookie", cookie}}});
}

static void write_page(FILE *out, const char *title)
{
	fprintf(out,
		"<!DOCTYPE html>\n<html lang=\"en\"><meta charset=\"utf-8\">"
		"<meta name=\"viewport\" content=\"width=device-width\">"
		"<title>smolder: %s</title>\n"
		"<link rel=\"stylesheet\" href=\"/plain.css\">\n"
		"<h1>smolder</h1>\n",
		title);
}

/* The form's POST has an Origin only where the policy lets the browser tell our own. */
static void answer_page(struct http_request *r, unsigned status, char *body, size_t len)
{
	http_answer(r, &(struct http_answer){.status = status,
					     .type = "text/html; charset=utf-8",
					     .body = body,
					     .len = len,
					     .headers = {{"Content-Security-Policy", PLAIN_CSP},
							 {"Referrer-Policy", "same-origin"}}});
}

/* Where there is no token that could help: who may, and what lets others in. */
static void forbid(struct http_request *r)
{
	char name[64] = "", text[512];
	uid_t uid;

	if (http_owner(r, &uid) != 0) {
		snprintf(text, sizeof(text),
			 "access denied: it is unknown which user of this machine sent the "
			 "request; a server with a token (--token-file) accepts that instead");
	} else {
		const struct passwd *p = getpwuid(uid);
		if (p)
			snprintf(name, sizeof(name), "%s", p->pw_name);
		else
			snprintf(name, sizeof(name), "%u", uid);
		if (http_sends(r))
			snprintf(text, sizeof(text),
				 "user %s may not send profiles to this server; root may, and "
				 "anyone with its token if it has one (--token-file)",
				 name);
		else
			snprintf(text, sizeof(text),
				 "user %s has no access to this server: root has, and whoever "
				 "started smolder; --allow-user %s grants it",
				 name, name);
	}
	if (!wants_page(r)) {
		http_fail(r, 403, "%s", text);
		return;
	}
	char *body = NULL;
	size_t len;
	FILE *out = open_memstream(&body, &len);
	write_page(out, "not allowed");
	fputs("<p role=\"alert\">", out);
	escape_xml(out, text, strlen(text));
	fputs("\n", out);
	fclose(out);
	answer_page(r, 403, body, len);
}

bool login_guard(void *ctx, struct http_request *r)
{
	const struct server *s = ctx;

	if (is_known(s, r))
		return true;
	if (!s->token) {
		forbid(r);
		return false;
	}
	if (!wants_page(r)) {
		http_fail(r, 401,
			  "this server requires its token: send 'Authorization: Bearer TOKEN', or "
			  "give smolder's commands --token-file FILE");
		return false;
	}
	char *where = NULL;
	size_t len;
	FILE *f = open_memstream(&where, &len);
	fputs("/login?next=", f);
	http_write_url(r, f);
	fclose(f);
	send_to(r, where, NULL);
	free(where);
	return false;
}

static void answer_form(struct http_request *r, unsigned status, const char *words)
{
	char *body = NULL;
	size_t len;
	FILE *out = open_memstream(&body, &len);

	write_page(out, "log in");
	if (words)
		fprintf(out, "<p role=\"alert\">%s\n", words);
	fputs("<form method=\"post\">\n"
	      "<p><label>The server's token<br>\n"
	      "<input type=\"password\" name=\"token\" autocomplete=\"current-password\" "
	      "required autofocus></label>\n"
	      "<button>Log in</button>\n"
	      "</form>\n",
	      out);
	fclose(out);
	answer_page(r, status, body, len);
}

void login_form(void *ctx, struct http_request *r)
{
	const struct server *s = ctx;

	if (!s->token || is_known(s, r))
		send_to(r, next_of(r), NULL);
	else
		answer_form(r, 200, NULL);
}

static int hex(char c)
{
	return c >= '0' && c <= '9'                 ? c - '0'
	       : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 'a' + 10
						    : -1;
}

/* A value of "a=b&token=c", decoded; from malloc, "" if it is not there. */
static char *form_value(const char *body, size_t len, const char *name)
{
	const char *end = body + len;
	size_t name_len = strlen(name);
	char *value = mem_alloc(len + 1), *out = value;

	for (const char *at = body; at && at < end;) {
		const char *next = memchr(at, '&', (size_t)(end - at));
		const char *stop = next ? next : end;
		if ((size_t)(stop - at) > name_len && at[name_len] == '=' &&
		    memcmp(at, name, name_len) == 0) {
			for (at += name_len + 1; at < stop; at++) {
				bool coded = *at == '%' && stop - at > 2 && hex(at[1]) >= 0 &&
					     hex(at[2]) >= 0;
				*out++ = (char)(coded        ? hex(at[1]) << 4 | hex(at[2])
						: *at == '+' ? ' '
							     : *at);
				at += coded ? 2 : 0;
			}
			break;
		}
		at = next ? next + 1 : NULL;
	}
	return value;
}

void login_post(void *ctx, struct http_request *r)
{
	const struct server *s = ctx;
	size_t len;
	const char *body = http_body(r, &len);
	CLEANUP(freep) char *token = form_value(body, len, "token");
	char name[32], value[TOKEN_COOKIE];

	if (!s->token) { /* nothing to log in with: as every other path answers */
		if (is_known(s, r))
			send_to(r, next_of(r), NULL);
		else
			forbid(r);
		return;
	}
	bool right = token_is(s->token, token);
	explicit_bzero(token, len + 1);
	if (!right) {
		answer_form(r, 401, "That is not the token of this server.");
		return;
	}
	cookie_name(s, name);
	token_cookie(s->token, (uint64_t)time(NULL), value);
	CLEANUP(freep)
	char *cookie = mem_printf("%s=%s; Path=/; Max-Age=%u; HttpOnly; SameSite=Lax%s", name,
				  value, TOKEN_LASTS, s->has_tls ? "; Secure" : "");
	send_to(r, next_of(r), cookie);
}

void login_css(void *ctx, struct http_request *r)
{
	static const char css[] =
		":root { color-scheme: light dark; font: 14px/1.5 system-ui, sans-serif }\n"
		"body { max-width: 60rem; margin: 2rem auto; padding: 0 1rem }\n"
		"h1 { font-size: 1.25rem }\n"
		"table { border-collapse: collapse; font-variant-numeric: tabular-nums }\n"
		"caption { text-align: left; font-weight: 600; padding: .5rem 0 }\n"
		"th, td { text-align: left; padding: .1rem 1.5rem .1rem 0 }\n"
		".n { text-align: right }\n"
		"td { max-width: 30rem; overflow-wrap: anywhere }\n"
		"input, button { font: inherit; padding: .25rem .5rem }\n";

	(void)ctx;
	http_answer(r, &(struct http_answer){.status = 200,
					     .type = "text/css; charset=utf-8",
					     .body = mem_dup(css, sizeof(css) - 1),
					     .len = sizeof(css) - 1});
}
