"""Models as files: one safetensors file each, nothing executable in it.

===============  ===================================================================================
``models``       :func:`save` and :func:`load`: a fitted ranker or pipeline, to be trained on, tuned
``scorer``       :func:`load_scorer`: only what scores, NumPy alone, for servers and small images
``kinds``        the closed tables: which name in a file stands for which class
``scikit``       ... and what of scikit-learn may stand in a pipeline
``states``       scorers and transforms as nodes of the manifest, and back
``values``       numbers, text, lists and arrays as JSON plus named arrays, and back
``manifest``     what a file says about itself, as strict records
``container``    the file itself: header, arrays, hashes, limits
``foreign``      files that are something else, recognized by their first bytes
===============  ===================================================================================

What a file promises
--------------------
* **Nothing in it runs.** It holds numbers, text and names. A name is looked up in a closed table;
  it never imports anything, and no pickle, ``eval`` or object array is involved anywhere.
* **Damage is noticed.** The manifest and every array carry their SHA-256. A cut, changed or
  lengthened file is refused with a :class:`~rankwright.exceptions.ModelFileError` that names the
  file; it never ends the process and never gives other scores. The hashes guard against accidents:
  they do not prove who wrote the file.
* **Every value is checked**, also in a file whose hashes are right: sizes before anything is
  allocated, then types and shapes, then ranges, by the same rules that guard ``fit``.
* **A save is all or nothing.** After a kill or a power cut the path holds the old file or the new.
* **Old files stay readable.** Every later version of rankwright loads the files of every earlier
  release, with equal scores (to 1e-12; bit for bit on the same platform). What keeps the promise:
  one small file of each kind and format stands in ``tests/persist/museum`` and is loaded at every
  test run; a parameter added later has a default that means the old behavior; a kind that was
  written once stays in the table. A file of a *newer* format is refused with the words to upgrade.

What a file leaves out: metadata requests and ``set_output`` choices (ask for them again after
loading), and what only steers training: callbacks, the cache folder of a pipeline, and the state of
a ``RandomState`` given as ``random_state`` (all loaded as None; an integer seed is kept).
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
