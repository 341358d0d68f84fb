// Package image checks ../Containerfile with the parser of BuildKit, which docker build uses. It is a module of its own, because
// nothing else requires that parser. No image is built: the tests of ../deploy run the command of the Containerfile that compiles the
// manager.
package image
