/*
 * notify: tells systemd the state of a service by the protocol of sd_notify(3): a datagram to the
 * socket in NOTIFY_SOCKET. Does nothing if that is not set.
 */
#pragma once

#include <stdint.h>

void notify(const char *state); /* "READY=1", "STATUS=…", "WATCHDOG=1", "STOPPING=1" */

/* How often to send WATCHDOG=1, in ms: half of systemd's limit. 0: never. */
uint64_t notify_watchdog_ms(void);
