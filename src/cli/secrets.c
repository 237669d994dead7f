#include "cli/secrets.h"

#include <nettle/base64.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "base/log.h"
#include "base/mem.h"
#include "cli/cli.h"
#include "serve/token.h"

#define TOKEN_FILE_MAX 4096
#define PEM_MAX        (1u << 20)

static void forget(char **secret)
{
	if (*secret)
		explicit_bzero(*secret, strlen(*secret));
	free(*secret);
	*secret = NULL;
}

/* The first line of a file; from malloc. NULL after reporting why there is none. */
static char *first_line(const char *path, const char *what)
{
	char *text = NULL;
	int err = file_read(path, TOKEN_FILE_MAX, &text, NULL);

	if (err) {
		log_error("cannot read the %s in %s: %s", what, path, strerror(-err));
		return NULL;
	}
	text[strcspn(text, "\r\n")] = '\0';
	return text;
}

char *secrets_token(const char *path)
{
	char *text = first_line(path, "token");

	if (!text)
		return NULL;
	struct token *t = token_new(text);
	if (!t) {
		log_error("the first line of %s is not a token: it must be %d to %d ASCII "
			  "characters without spaces; 'openssl rand -hex 16' makes one",
			  path, TOKEN_LEAST, TOKEN_MOST);
		forget(&text);
	}
	token_free(t);
	return text;
}

char *secrets_bearer(const char *path)
{
	char *token = secrets_token(path);
	char *bearer = token ? mem_printf("Bearer %s", token) : NULL;

	forget(&token);
	return bearer;
}

char *secrets_basic(const char *path)
{
	char *text = first_line(path, "name and password"), *header = NULL;

	if (!text)
		return NULL;
	if (strchr(text, ':')) {
		size_t len = strlen(text);
		CLEANUP(freep) char *packed = mem_alloc(BASE64_ENCODE_RAW_LENGTH(len) + 1);
		base64_encode_raw(packed, len, (const uint8_t *)text);
		header = mem_printf("Basic %s", packed);
	} else {
		log_error("the first line of %s is not USER:PASSWORD", path);
	}
	forget(&text);
	return header;
}

static char *read_pem(const char *path)
{
	char *text = NULL;
	int err = file_read(path, PEM_MAX, &text, NULL);

	if (err)
		log_error("cannot read %s: %s", path, strerror(-err));
	return text;
}

static void look_at_mode(const char *path)
{
	struct stat st;

	if (stat(path, &st) == 0 && st.st_mode & S_IROTH)
		log_warn("every user of this machine can read %s; 'chmod o-r' prevents that", path);
}

int secrets_read(const struct settings *s, struct secrets *ret)
{
	const char *token = settings_text(s, SET_TOKEN_FILE);
	const char *cert = settings_text(s, SET_TLS_CERT), *key = settings_text(s, SET_TLS_KEY);

	*ret = (struct secrets){};
	if (!cert != !key) {
		log_error("--tls-cert and --tls-key must be given together");
		return EXIT_USAGE;
	}
	if (token) {
		look_at_mode(token);
		ret->token = secrets_token(token);
	}
	if (cert)
		ret->tls_cert = read_pem(cert);
	if (key && ret->tls_cert) {
		look_at_mode(key);
		ret->tls_key = read_pem(key);
	}
	if (!token == !ret->token && !key == !ret->tls_key)
		return 0;
	secrets_done(ret);
	return 1;
}

void secrets_done(struct secrets *s)
{
	forget(&s->token);
	forget(&s->tls_cert);
	forget(&s->tls_key);
}
