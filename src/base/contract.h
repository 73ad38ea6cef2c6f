/*
 * contract(cond): what is true by a contract that no static analyser can see from there (of a library, or between two
 * fields of a struct). `make analyse` is told so, and follows no path on which it is not; a build with sanitizers,
 * which is what tests and fuzzers run, checks it. Ordinary builds have nothing of it: it is no way to handle errors.
 */
#ifndef MVPROXY_BASE_CONTRACT_H
#define MVPROXY_BASE_CONTRACT_H

#if defined(MVPROXY_ANALYSED) || defined(MVPROXY_SANITIZED)
#define contract(cond) ((cond) ? (void)0 : __builtin_trap())
#else
#define contract(cond) ((void)sizeof((cond) ? 1 : 0))
#endif

#endif
