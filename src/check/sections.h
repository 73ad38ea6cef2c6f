/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The sections of a check, in their order. Each says what it found and leaves in the scene what later ones need.
 */
#ifndef MVPROXY_CHECK_SECTIONS_H
#define MVPROXY_CHECK_SECTIONS_H

#include "check/scene.h"

/* Reads the configuration: file and, of a process that runs, its command line. */
void section_configuration(struct scene *s);
void section_certificates(struct scene *s);
/* Whether this is not the place to ask, which is a finding then. */
bool section_elsewhere(struct scene *s);
/* These five need a connected scene, and the third a local server that answers. The first asks every endpoint of etcd,
 * and the last waits for what they answer: what hangs there takes no time of its own. */
void section_etcd_begin(struct scene *s);
void section_local(struct scene *s);
void section_identity(struct scene *s);
void section_peers(struct scene *s);
void section_etcd(struct scene *s);
void section_host(struct scene *s);
/* A part of the last one. */
struct addresses;
void section_kubeadm(struct scene *s, const struct addresses *ours);

/*
 * The lines that the daemon's own checks write, "file:line:column: option: what is wrong: what to do", with "warning: "
 * before those that are.
 */
void sections_take_lines(struct scene *s, const char *check, struct slice lines, const char *remedy);
/* What to do where the local server gave no answer, or failed at it (5xx); NULL: neither. */
const char *sections_failure_remedy(const struct scene *s, const struct answer *a);
/* A member of a JSON object as text; "" if there is none. */
const char *sections_text(struct json_object *o, const char *name);

#endif
