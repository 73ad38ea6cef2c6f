// SPDX-License-Identifier: Apache-2.0
// @kubernetes/client-node as people use it. One JSON line per event, as tests/kube/informer writes them.
//
//   client.cjs informer KUBECONFIG [GROUP/]VERSION/RESOURCE     a core resource is looked at in the namespace default
//   client.cjs exec KUBECONFIG POD COMMAND...                   standard input and output are the command's
'use strict';
const k8s = require('@kubernetes/client-node');

const say = (line) => process.stdout.write(JSON.stringify(line) + '\n');

function informer(config, resource) {
  const [plural, version, group] = resource.split('/').reverse();
  const path = group ? `/apis/${group}/${version}/${plural}` : `/api/${version}/namespaces/default/${plural}`;
  const custom = config.makeApiClient(k8s.CustomObjectsApi);
  const core = config.makeApiClient(k8s.CoreV1Api);
  const list = () => group ? custom.listClusterCustomObject({group, version, plural})
    : core.listNamespacedConfigMap({namespace: 'default'});
  const one = k8s.makeInformer(config, path, list);
  const told = (event) => (object) => say({event, name: object.metadata.name, rv: object.metadata.resourceVersion,
    note: (object.metadata.annotations || {}).n});
  const start = () => one.start().then(() => say({event: 'synced'})).catch(failed);
  const failed = (error) => {
    say({event: 'error', text: String(error)});
    setTimeout(start, 500); // its documentation leaves this to the program
  };
  one.on('add', told('ADDED'));
  one.on('update', told('MODIFIED'));
  one.on('delete', told('DELETED'));
  one.on('error', failed);
  start();
}

function exec(config, pod, command) {
  const leave = (status) => { process.exitCode = status.status === 'Success' ? 0 : 1; process.stdin.destroy(); };
  new k8s.Exec(config).exec('default', pod, 'main', command, process.stdout, process.stderr, process.stdin, false, leave)
    .catch((error) => { process.stderr.write(String(error.message || error) + '\n'); process.exitCode = 1; process.stdin.destroy(); });
}

const [what, file, ...rest] = process.argv.slice(2);
const config = new k8s.KubeConfig();
config.loadFromFile(file);
if (what === 'informer') informer(config, rest[0]);
else exec(config, rest[0], rest.slice(1));
