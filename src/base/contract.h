/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is true by contract, said where it is relied on.
 *
 * must_hold(cond): an invariant that memory safety or somebody's identity rests on, and that a mistake elsewhere would
 * break. Always checked: where it does not hold the process logs file, line and condition, and aborts, because nothing
 * that could be done instead is known to be right. For what costs a comparison; not for input, and not for what can
 * be refused (see lifetime.h), since whoever could provoke it would end the process for all.
 *
 * contract(cond): what is true by a contract that no static analyser can see from there (of a library, or between two
 * fields of a struct). `make analyse` is told so, and follows no path on which it is not; a build with sanitizers,
 * which is what tests and fuzzers run, checks it. Ordinary builds have nothing of it: it is no way to handle errors.
 */
#ifndef MVPROXY_BASE_CONTRACT_H
#define MVPROXY_BASE_CONTRACT_H

#define must_hold(cond) (__builtin_expect(!!(cond), 1) ? (void)0 : contract_broken(__FILE__, __LINE__, #cond))

#if defined(MVPROXY_ANALYSED) || defined(MVPROXY_SANITIZED)
#define contract(cond) ((cond) ? (void)0 : __builtin_trap())
#else
#define contract(cond) ((void)sizeof((cond) ? 1 : 0))
#endif

/* Says it and aborts. */
void contract_broken(const char *file, int line, const char *what) __attribute__((noreturn, cold));

/*
 * Who says it: the log (log.h) names itself when it begins, since it is above what contracts are about. Before that,
 * and where it breaks in turn, it is a line on stderr.
 */
typedef void contract_words_fn(const char *file, int line, const char *what);
void contract_set_words(contract_words_fn *fn);

#endif
