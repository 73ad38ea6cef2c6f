/* SPDX-License-Identifier: Apache-2.0 */
/* What a kube-apiserver that stops answers to requests. */
#ifndef MVPROXY_TESTS_UNIT_PROXY_STOPPING_H
#define MVPROXY_TESTS_UNIT_PROXY_STOPPING_H

/* As kube-apiserver writes it between SIGTERM and its end (waitgroup.go of k8s.io/apiserver), to whatever comes late.
 */
#define STOPPING_BODY                                                                                                  \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":\"apiserver is "    \
    "shutting "                                                                                                        \
    "down\",\"reason\":\"ServiceUnavailable\",\"code\":503}\n\n"
#define STOPPING                                                                                                       \
    "HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nRetry-After: 1\r\nContent-Length: "         \
    "150\r\n\r\n" STOPPING_BODY

/* And to everybody, for as long as it waits, with --shutdown-send-retry-after (with_retry_after.go). */
#define AWAY_BODY "The apiserver is shutting down, please try again later.\n"
#define AWAY                                                                                                           \
    "HTTP/1.1 429 Too Many Requests\r\nContent-Type: text/plain; charset=utf-8\r\nRetry-After: 5\r\n"                  \
    "Content-Length: 56\r\n\r\n" AWAY_BODY

#endif
