#!/bin/bash
# Stands for a program that would change the machine, and notes how it was called.
set -euo pipefail
name=${0##*/}
echo "$name $*" >>/calls
case "$name $*" in
"systemctl restart "*kubelet*) # as the kubelet does: the kubeconfig at once, and the certificate when it is signed
  echo "kubeconfig" >/etc/kubernetes/kubelet.conf
  mkdir -p /var/lib/kubelet/pki
  [[ -e /never-joins ]] || echo "certificate" >/var/lib/kubelet/pki/kubelet-client-current.pem
  ;;
"ip -4 "*) echo "192.0.2.1 via 10.0.0.1 dev eth0 src 10.0.0.7 uid 0" ;;
"ip -6 "*) echo "2001:db8::1 from :: via fe80::1 dev eth0 proto ra src 2001:db8::7 metric 100 pref medium" ;;
"curl "*)
  echo "proxy ${HTTPS_PROXY-}" >>/calls
  while [[ $# -gt 1 ]]; do
    if [[ $1 == --output ]]; then file=$2; fi
    shift
  done
  case $1 in
  *.sha256) sha256sum "${file%.sha256}" >"$file" ;;
  *.tgz) tar -czf "$file" -C /usr/bin cat ;;
  *) echo "content of $1" >"$file" ;;
  esac
  ;;
esac
