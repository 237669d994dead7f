#include "serve/assets.h"

#include <string.h>

#include "base/mem.h"
#include "web/assets_table.h"

const struct asset *assets_find(const char *path)
{
	if (strcmp(path, "/index.html") == 0)
		path = "/";
	for (size_t i = 0; i < ARRAY_SIZE(assets); i++)
		if (strcmp(assets[i].path, path) == 0)
			return &assets[i];
	return NULL;
}

const struct asset *assets_at(size_t n)
{
	return n < ARRAY_SIZE(assets) ? &assets[n] : NULL;
}
