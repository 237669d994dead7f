#include "render/render.h"

#include <string.h>
#include <strings.h>

const struct renderer renderers[] = {
	{"svg", "svg", "interactive flame graph for a browser", render_svg, true},
	{"html", "html,htm", "the same as a page with a table of functions", render_html, true},
	{"pprof", "pb.gz,pprof,pb", "gzipped protobuf for go tool pprof", render_pprof, false},
	{"pgo", "pgo", "CPU profile for go build -pgo", render_pgo, false},
	{"folded", "folded", "one line per stack: a;b;c 12", render_folded, false},
	{"speedscope", "speedscope.json,speedscope", "for https://www.speedscope.app",
	 render_speedscope, true},
	{"columns", "columns.json,tree.json",
	 "the call tree as JSON columns, as the HTTP API answers", render_tree_json, false},
	{"json", "json", "the call tree as a flat JSON list of nodes", render_json, false},
	{"tree", "tree,tree.txt", "the call tree as indented text, largest first", render_tree,
	 false},
	{"text", "txt", "whole stacks, leaf first, as BCC's profile prints them", render_text,
	 false},
	{"dot", "dot,gv", "who calls whom, as a graph for Graphviz", render_dot, false},
	{"top", "top", "table of functions: self and total", render_top, false},
	{},
};

const struct renderer *render_by_name(const char *name)
{
	for (const struct renderer *r = renderers; r->name; r++)
		if (strcmp(r->name, name) == 0)
			return r;
	return NULL;
}

static bool ends_with_extension(const char *path, const char *ext, size_t len)
{
	size_t n = strlen(path);

	return n > len && path[n - len - 1] == '.' && strncasecmp(path + n - len, ext, len) == 0;
}

const struct renderer *render_by_path(const char *path)
{
	for (const struct renderer *r = renderers; r->name; r++) {
		for (const char *ext = r->extensions; *ext;) {
			size_t len = strcspn(ext, ",");
			if (ends_with_extension(path, ext, len))
				return r;
			ext += len + (ext[len] == ',');
		}
	}
	return NULL;
}
