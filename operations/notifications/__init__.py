"""Tell the owner what happened, by mail, ntfy or webhook.

``store.notify`` queues a notification; ``delivery`` sends it on the channels that the owner chose.
"""
