/*
 * notify: tells systemd how a service is, by the protocol of sd_notify(3): a datagram to the socket
 * that NOTIFY_SOCKET names. Nothing happens where there is none.
 */
#pragma once

#include <stdint.h>

void notify(const char *state); /* "READY=1", "STATUS=…", "WATCHDOG=1", "STOPPING=1" */

/* How often systemd wants WATCHDOG=1, in ms: half of its limit. 0: it does not. */
uint64_t notify_watchdog_ms(void);
