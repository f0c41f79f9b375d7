"""The jars that the servers need, declared in `jars.toml`, and the files with which Apache Ivy resolves them."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from xml.etree import ElementTree as xml

from springline.services.errors import UnknownServerError

FILE = Path(__file__).parent / "jars.toml"
# Fetches a jar without its POM (which may refer to a parent that does not exist).
_JAR_ONLY = "jar-only"
_MAVEN = "http://ant.apache.org/ivy/maven"  # the namespace of classifiers


@dataclass(frozen=True, slots=True)
class JarSet:
    """The jars of one server.

    `jars` and `alone` are coordinates `group:artifact:version`; those of `alone` are fetched without dependencies, and
    may have a classifier as fourth part.
    `exclude` has groups, or `group:artifact`, that are excluded from all dependencies. `archives` are
    `group:artifact:version:classifier`: archives (`tar.gz`) with all that a server consists of, which are unpacked.
    """

    name: str
    jars: tuple[str, ...] = ()
    alone: tuple[str, ...] = ()
    exclude: tuple[str, ...] = ()
    archives: tuple[str, ...] = ()

    @property
    def fingerprint(self) -> str:
        """Hash of the declaration; a different one means that other jars are needed."""
        return hashlib.sha256(repr((self.jars, self.alone, self.exclude, *self.archives)).encode()).hexdigest()[:16]


def jar_sets(file: Path = FILE) -> Mapping[str, JarSet]:
    """Return all declared sets, by name."""
    with file.open("rb") as opened:
        declared = tomllib.load(opened)
    return {name: JarSet(name, **{key: tuple(value) for key, value in each.items()}) for name, each in declared.items()}


def jar_set(name: str) -> JarSet:
    """Return the set of this name; raises `UnknownServerError`."""
    sets = jar_sets()
    if name not in sets:
        raise UnknownServerError(f"unknown set of jars {name!r}; available: {', '.join(sets)}")
    return sets[name]


def ivy_module(jars: JarSet) -> str:
    """Return the XML of Ivy's module file: what it is to resolve."""
    module = xml.Element("ivy-module", version="2.0")
    xml.SubElement(module, "info", organisation="springline", module=jars.name)
    xml.SubElement(xml.SubElement(module, "configurations"), "conf", name="server")
    dependencies = xml.SubElement(module, "dependencies")
    for kind, coordinates_of_kind in {"jar": (*jars.jars, *jars.alone), "tar.gz": jars.archives}.items():
        for coordinates in coordinates_of_kind:
            group, artifact, version, *classifiers = coordinates.split(":")
            alone = {} if coordinates in jars.jars else {"transitive": "false"}
            attributes = {"org": group, "name": artifact, "rev": version, "conf": "server->default", **alone}
            dependency = xml.SubElement(dependencies, "dependency", attributes)
            for classifier in classifiers:
                named = {"name": artifact, "type": kind, "ext": kind, f"{{{_MAVEN}}}classifier": classifier}
                xml.SubElement(dependency, "artifact", named)
    for exclusion in jars.exclude:
        group, _, artifact = exclusion.partition(":")
        xml.SubElement(dependencies, "exclude", {"org": group, **({"module": artifact} if artifact else {})})
    return xml.tostring(module, encoding="unicode")


def ivy_settings(jars: JarSet, cache: Path, repository: str) -> str:
    """Return the XML of Ivy's settings: cache folder and repository; an empty `repository` is Maven Central."""
    settings = xml.Element("ivysettings")
    xml.SubElement(settings, "caches", defaultCacheDir=str(cache))
    xml.SubElement(settings, "settings", defaultResolver="central")
    root = {"root": repository} if repository else {}
    resolvers = xml.SubElement(settings, "resolvers")
    xml.SubElement(resolvers, "ibiblio", {"name": "central", "m2compatible": "true", **root})
    xml.SubElement(resolvers, "ibiblio", {"name": _JAR_ONLY, "m2compatible": "true", "usepoms": "false", **root})
    modules = xml.SubElement(settings, "modules")
    for coordinates in (*jars.alone, *jars.archives):
        group, artifact = coordinates.split(":")[:2]
        xml.SubElement(modules, "module", organisation=group, name=artifact, resolver=_JAR_ONLY)
    return xml.tostring(settings, encoding="unicode")


def mirror_url(maven_settings: str) -> str:
    """Return the URL of the mirror of Maven Central in Maven's settings (XML); empty if there is none."""
    for each in _without_namespaces(maven_settings).iter("mirror"):
        fields = {child.tag: (child.text or "").strip() for child in each}
        names = {name.strip() for name in fields.get("mirrorOf", "").split(",")}
        if names & {"central", "*", "external:*"} and fields.get("blocked") != "true" and "!central" not in names:
            return fields.get("url", "")
    return ""


def _without_namespaces(text: str) -> xml.Element:
    root = xml.fromstring(text)
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root
