/*
 * top_source: where `smolder top` has its intervals from: the kernel (top_live.h) or a server
 * (top_server.h).
 *
 *	start()   begins, or begins anew: once for each loop
 *	take()    what there was since the last time
 *	stop()    once that loop is freed
 */
#pragma once

#include <stdbool.h>

#include "base/loop.h"
#include "query/top_view.h"

enum top_take {
	TOP_TAKEN,  /* there is a new interval */
	TOP_SAME,   /* nothing new yet */
	TOP_ANEW,   /* as TOP_TAKEN; and it wants to be stopped and started */
	TOP_FAILED, /* after reporting why: the last interval is all there is for now */
};

struct top_source {
	/* 0, or the exit code after reporting why not. */
	int (*start)(void *self, bool wall);
	int (*watch)(void *self, struct loop *l); /* 0 or -errno */
	/* *ret is borrowed until the next call that takes one. NULL: nobody wants it. */
	enum top_take (*take)(void *self, const struct top_interval **ret);
	void (*stop)(void *self);
	void (*free)(void *self);
	void *self;
	bool is_stored; /* there may be an interval already when it begins */
	char *name;     /* "this machine", "http://…"; the owner frees it */
};

static inline void top_source_done(struct top_source *s)
{
	if (s->free)
		s->free(s->self);
	free(s->name);
	*s = (struct top_source){};
}
