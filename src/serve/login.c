#include "base/mem.h"
#include "serve/parts.h"

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
